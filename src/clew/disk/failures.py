"""How a refusal of the operating system is told: one `OSError` in, one clew error out. Nothing here acts."""

import errno
import shutil
from pathlib import Path

from clew.errors import ClewError, Refused, Storage

_FULL = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
_NOWHERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG})


def failure(error: OSError, path: Path, deed: str) -> ClewError:
    """The error to raise from an `OSError` met while doing `deed` ("write", "open", ...) to `path`.

    `Storage` is `disk_full`, `storage_denied` or `run_state_failed`; a link where none may be is
    `Refused` (`home_link_refused`).

    Source:
        DESIGN §4 and §9; contract #42.
    """
    if error.errno == errno.ELOOP:
        return link_refused(path)
    name = errno_name(error)
    message = f"cannot {deed} {str(path)!r}: {name}, {error.strerror}"
    facts = {"path": str(path), "errno": name}
    if error.errno in _FULL:
        return Storage(
            message,
            code="disk_full",
            next="Free space on that disk, then do it again; a run that had begun goes on with `clew resume`.",
            **facts,
        )
    if error.errno in _DENIED:
        return Storage(
            message, code="storage_denied", next="Give this user read and write access to that path.", **facts
        )
    if error.errno in _NO_DESCRIPTOR:
        return Storage(
            message,
            code="run_state_failed",
            next="Close files that are not needed, or raise the limit (`ulimit -n`); then do it again.",
            **facts,
        )
    if error.errno in _NOWHERE:
        return Storage(
            message,
            code="run_state_failed",
            next="Check that path: a folder on the way to it is missing, or something else stands in its place.",
            **facts,
        )
    return Storage(message, code="run_state_failed", next="Check that disk, then `clew verify` the run.", **facts)


def barrier_failed(error: OSError, path: Path) -> Storage:
    """A sync failed: what was written may or may not survive, and a second sync would only hide it.

    Source:
        promise 12; contract #49; reliability g.
    """
    name = errno_name(error)
    return Storage(
        f"cannot sync {str(path)!r}: {name}, {error.strerror}",
        code="durability_barrier_failed",
        next="Check that disk, then `clew resume` the run: it reads what the disk really kept.",
        path=str(path),
        errno=name,
    )


def link_refused(path: Path) -> Refused:
    """Below the home every folder and file is real; a link could lead a write anywhere."""
    return Refused(
        f"{str(path)!r} is a link, and nothing below the home may be one",
        code="home_link_refused",
        next="Put the real file or folder in its place.",
        path=str(path),
    )


def errno_name(error: OSError) -> str:
    """`ENOSPC` and the like; the number where it has no name."""
    return errno.errorcode.get(error.errno or 0, str(error.errno))


def no_room_left(folder: Path) -> bool:
    """Was a short write one of a full disk? Asked of the file system right after it."""
    return shutil.disk_usage(folder).free == 0
