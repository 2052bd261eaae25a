"""Where the home is: named, or found upwards like a repository. Opens nothing."""

import os
from pathlib import Path
from typing import Final

from clew.errors import NotFound

FOLDER: Final = ".clew"
VARIABLE: Final = "CLEW_HOME"
_RUNS: Final = "runs"
_SESSIONS: Final = "sessions"


def find_home(start: Path | None = None) -> Path | None:
    """The home's folder: `CLEW_HOME`, or the first `.clew` upwards from here; None when there is none.

    Raises:
        NotFound: `no_home` when the current folder was removed.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    here = (start or _current()).resolve()
    return next((folder / FOLDER for folder in (here, *here.parents) if _is_one(folder / FOLDER)), None)


def absolute(path: str | Path) -> Path:
    """A path as it is meant from here, whatever becomes the current folder later.

    Raises:
        NotFound: `no_home` when it is relative and the current folder was removed.
    """
    return Path(path) if os.path.isabs(path) else _current() / path


def _current() -> Path:
    try:
        return Path.cwd()
    except OSError as fault:
        raise NotFound(
            f"the current folder cannot be told, so nothing is found from here: {fault.strerror}",
            code="no_home",
            next="Go to a folder that is there, or name all paths from the root on.",
        ) from fault


def _is_one(path: Path) -> bool:
    """A folder, or a link: one that leads nowhere, to a disk that is not there now, must not send us further up."""
    return os.path.isdir(path) or os.path.islink(path)


def require_home(path: Path) -> None:
    """Was ever a run started in this folder, or a session begun?

    Raises:
        NotFound: `no_home`.
    """
    try:
        if not any(_is_there(path / name) for name in (_RUNS, _SESSIONS)):
            raise _no_home(path)
    except OSError:
        # Whoever goes on to read it is told why it cannot be read.
        return


def _is_there(path: Path) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _no_home(path: Path) -> NotFound:
    inside = path / FOLDER
    return NotFound(
        f"there is no home at {str(path)!r}",
        code="no_home",
        next=f"Name the folder itself: --home {inside}"
        if os.path.isdir(inside)
        else "Go to the folder where runs were started, or say --home PATH; `clew run` makes a new one.",
        path=str(path),
    )
