"""The scratch folders of a trial: the workspace is copied once, within bounds, and made new for each life."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from clew.errors import UsageError

LEFT_OUT: Final = frozenset({
    ".clew", ".coremind", ".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache",
    ".pytest_cache", ".ruff_cache", ".hypothesis", ".tox",
})  # fmt: skip
"""Folders that are not copied, wherever they lie."""
SCRATCH: Final = "clew-certify-"
"""How the folder of a trial begins; one that lies in the workspace is not copied into itself."""
MAX_BYTES: Final = 32 << 20
MAX_FILES: Final = 2000


def is_copied(folder: str) -> bool:
    """Is a folder of this name copied?"""
    return folder not in LEFT_OUT and not folder.startswith(SCRATCH)


def measured(folder: Path) -> tuple[int, int]:
    """How many files of a workspace are to be copied, and their bytes.

    Raises:
        UsageError: `workspace_too_large` above `MAX_FILES` or `MAX_BYTES`; it is copied for each life.
    """
    count = size = 0
    for path in _files(folder):
        count, size = count + 1, size + path.lstat().st_size
        if count > MAX_FILES or size > MAX_BYTES:
            raise UsageError(
                f"the workspace {str(folder)!r} has more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB to copy",
                code="workspace_too_large",
                next="Name a smaller one that the agent can work in with --workspace FOLDER; an empty one will do.",
                workspace=str(folder),
            )
    return count, size


def _files(folder: Path) -> Iterator[Path]:
    for at, folders, names in os.walk(folder):
        folders[:] = filter(is_copied, folders)
        yield from (Path(at, name) for name in names)


def copy(source: Path, target: Path) -> None:
    """Copy a workspace; links stay links, sockets and pipes stay out."""
    target.mkdir(parents=True, exist_ok=True)
    for at, folders, names in os.walk(source):
        folders[:] = filter(is_copied, folders)
        here = target / Path(at).relative_to(source)
        for name in folders:
            _made(Path(at, name), here / name)
        for name in names:
            path = Path(at, name)
            if path.is_symlink() or path.is_file():
                shutil.copy2(path, here / name, follow_symlinks=False)


def _made(source: Path, target: Path) -> None:
    """A folder, or a link to one."""
    if source.is_symlink():
        target.symlink_to(os.readlink(source))
    else:
        target.mkdir(exist_ok=True)


def renew(template: Path, work: Path) -> None:
    """Make a scratch workspace as it was in the beginning; the folder itself stays, for processes stand in it."""
    work.mkdir(parents=True, exist_ok=True)
    for path in work.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    copy(template, work)
