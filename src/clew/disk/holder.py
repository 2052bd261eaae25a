"""Which process holds the kernel's lock on a file, as far as the system tells. Nothing is locked or opened here."""

import os
import sys
from pathlib import Path
from typing import Any

from clew.disk import process


def holder_of(path: Path) -> dict[str, Any]:
    """What is known of the process that holds a file: `pid`, `host`, `startTick`, `state`; empty when nothing is.

    Told without a lock, so it may be over already. A holder in another PID namespace is not shown.
    """
    pid = _pid_of(path)
    if not pid:
        return {}
    seen = process.look(pid)
    if seen.state == "none":
        return {}
    return {"pid": pid, "host": process.identity()["host"], "startTick": seen.start_tick, "state": seen.state}


if sys.platform == "win32":

    def _pid_of(path: Path) -> int:
        """Windows does not say it."""
        del path
        return 0

else:
    _LOCKS = Path("/proc/locks")

    def _pid_of(path: Path) -> int:
        try:
            found = os.lstat(path)
            text = _LOCKS.read_text(errors="replace")
        except OSError:
            return 0
        place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        return pid_in(text, place)

    def pid_in(text: str, place: str) -> int:
        """The process with the `flock` on a place `major:minor:inode`, by the lines of `/proc/locks`; 0 if none.

        Those that only wait for it have `->` in front of the kind.
        """
        for line in text.splitlines():
            fields = line.split()
            if len(fields) > 5 and fields[1] == "FLOCK" and fields[5] == place and fields[4].isdigit():
                return int(fields[4])
        return 0
