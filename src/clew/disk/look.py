"""A look at what is open, or at where a path leads, and the end of looking. Bytes are read in `files`."""

import contextlib
import os
import stat
from pathlib import Path

from clew.disk.failures import failure


def look(fd: int, path: Path) -> os.stat_result:
    """What the system says of an open file. `Storage` when it says nothing, as of any other call that fails."""
    try:
        return os.fstat(fd)
    except OSError as error:
        raise failure(error, path, "look at") from error


def let_go(fd: int) -> None:
    """Close a descriptor through which nothing was written that is not synced: its refusal changes nothing."""
    with contextlib.suppress(OSError):
        os.close(fd)


def leads_to_folder(path: Path) -> bool:
    """Is there a folder, or a link that leads to one? `Storage` when it cannot be told."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise failure(error, path, "look at") from error
