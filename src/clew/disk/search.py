"""A search in a process of its own, which is killed when its time is over. How it searches is known to `seeker`."""

import json
import signal
import subprocess
import sys
from typing import Any

from clew.disk import seeker


class TooSlow(Exception):
    """The search was ended because its time was over."""


def seek_apart(order: dict[str, Any], seconds: float) -> dict[str, Any]:
    """What `seek` finds, or `wrong`: why the pattern is none. It is killed after so many seconds, also if we have died.

    It is not in our group: Ctrl-C at the keyboard is for this process, which ends what it does at a safe point.

    Raises:
        TooSlow: it was. OSError: no such process could be started, or it came to no end of its own.
    """
    if getattr(sys, "frozen", False) or not sys.executable:
        raise OSError("this program has no Python interpreter that could search")
    asked = json.dumps({**order, "seconds": seconds}).encode()
    command = [sys.executable, "-I", "-S", seeker.__file__]
    try:
        done = subprocess.run(
            command, input=asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=seconds, check=False,
            start_new_session=True, creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TooSlow from None
    if done.returncode != 0:
        # The alarm may strike a moment before we do.
        raise TooSlow if -done.returncode == getattr(signal, "SIGALRM", 0) else OSError(f"exit code {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
