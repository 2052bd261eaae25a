"""Files that go for good, and what lies in a folder by size. Whether they may go is not known here."""

import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from clew.disk.failures import failure


def remove(path: Path) -> int:
    """Remove a file; how many bytes it had, 0 when it is gone already. A link is removed itself.

    Raises:
        Storage: the machine refuses, or it is a folder.
    """
    try:
        size = os.lstat(path).st_size
        _unlink(path)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise failure(error, path, "remove") from error
    return size


def sizes(folder: Path) -> Iterator[tuple[str, int]]:
    """Names and lengths of the files in a folder, none when there is no folder; what vanishes meanwhile is left out."""
    try:
        with os.scandir(folder) as found:
            entries = list(found)
    except FileNotFoundError:
        return
    except OSError as error:
        raise failure(error, folder, "list") from error
    for entry in entries:
        try:
            seen = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise failure(error, folder / entry.name, "look at") from error
        if stat.S_ISREG(seen.st_mode):
            yield entry.name, seen.st_size


if sys.platform == "win32":

    def _unlink(path: Path) -> None:
        """Again while another program has it open: about 2.5 s."""
        for wait_ms in (10, 20, 40, 80, 160, 320, 640, 1280):
            try:
                return os.unlink(path)
            except PermissionError as error:
                if getattr(error, "winerror", None) not in (5, 32):
                    raise
                time.sleep(wait_ms / 1000)
        return os.unlink(path)

else:
    _unlink = os.unlink
