"""The moment in which a name is looked for and given: one at a time in a folder. What is named is not its business."""

import sys
from pathlib import Path

if sys.platform == "win32":

    class Naming:
        """Nothing to hold: names that differ by case alone are one name here, and the system gives it once."""

        def __init__(self, folder: Path) -> None:
            del folder

        def __enter__(self) -> None:
            return

        def __exit__(self, *raised: object) -> None:
            return

else:
    import fcntl
    import os
    import time
    import weakref

    from clew.disk.failures import failure
    from clew.disk.look import let_go
    from clew.errors import Storage

    _WAIT_S = 10.0
    _POLL_S = 0.001

    class Naming:
        """Holds a folder while a name in it is checked and given; never while anything is synced.

        It is let go at the end of its `with`, or when nobody has this object any more: an interrupt has no good moment.

        Raises:
            Storage: `run_state_failed` when another process holds it for 10 s; or the folder cannot be held.
        """

        def __init__(self, folder: Path) -> None:
            self._folder = folder

        def __enter__(self) -> None:
            try:
                self._fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError as error:
                raise failure(error, self._folder, "open") from error
            self._close = weakref.finalize(self, let_go, self._fd)
            _take(self._fd, self._folder)

        def __exit__(self, *raised: object) -> None:
            # By word, not only by closing: a child that was forked meanwhile has the descriptor too.
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            self._close()

    def _take(fd: int, folder: Path) -> None:
        until = time.monotonic() + _WAIT_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise Storage(
                        f"another process has been giving a name in {str(folder)!r} for {_WAIT_S:g} s",
                        code="run_state_failed",
                        next="See whether a process that begins runs there is stopped; let it go on, or end it.",
                        path=str(folder),
                    ) from None
                time.sleep(_POLL_S)
            except OSError as error:
                raise failure(error, folder, "hold") from error
            else:
                return
