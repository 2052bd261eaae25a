"""The kernel's lock on a descriptor. It is let go by closing the descriptor, or by death; there is no other way."""

import sys
import time

_POLL_S = 0.02

if sys.platform == "win32":
    import ctypes
    import msvcrt
    from ctypes import wintypes

    _FAIL_IMMEDIATELY, _EXCLUSIVE = 0x1, 0x2
    _VIOLATION = 33
    # Windows locks bytes against reading too, so the one that is locked lies far beyond any end.
    _FAR_HIGH = 1 << 30

    class _Overlapped(ctypes.Structure):
        _fields_ = [
            ("Internal", ctypes.c_void_p),
            ("InternalHigh", ctypes.c_void_p),
            ("Offset", wintypes.DWORD),
            ("OffsetHigh", wintypes.DWORD),
            ("hEvent", wintypes.HANDLE),
        ]

    def try_lock(fd: int, *, shared: bool = False) -> bool:
        """Take the lock now, or say that another descriptor has it. `OSError` for anything else."""
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        place = _Overlapped(None, None, 0, _FAR_HIGH, None)
        handle = wintypes.HANDLE(msvcrt.get_osfhandle(fd))
        how = _FAIL_IMMEDIATELY if shared else _FAIL_IMMEDIATELY | _EXCLUSIVE
        if kernel.LockFileEx(handle, how, 0, 1, 0, ctypes.byref(place)):
            return True
        code = ctypes.get_last_error()
        if code == _VIOLATION:
            return False
        raise ctypes.WinError(code)

else:
    import fcntl

    def try_lock(fd: int, *, shared: bool = False) -> bool:
        """Take the lock now, or say that another descriptor has it. `OSError` for anything else.

        `flock`, never `lockf`: a record lock is lost when any descriptor of the file is closed, and the same
        process is granted it twice.

        Source:
            DESIGN §4 "Lock"; reliability f.
        """
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def take(fd: int, wait_s: float) -> bool:
    """Try for `wait_s` seconds to get the lock. A lock freed by a death may lag behind it by milliseconds."""
    until = time.monotonic() + wait_s
    while not try_lock(fd):
        left = until - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(_POLL_S, left))
    return True
