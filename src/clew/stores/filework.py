"""What tools do to one file of a workspace: write, delete, move. Every folder on the way is held by a descriptor."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from clew.core.checkpoint import ABSENT, PathState
from clew.disk import anchor
from clew.disk.anchor import Folder
from clew.disk.failures import barrier_failed, failure
from clew.errors import NotFound, Refused
from clew.stores.base.workspace import FileBytes
from clew.stores.ground import Ground, counted, no_file, state_of

_OWNER_MAY_WRITE = 0o200


def read(ground: Ground, below: str, path: str, limit: int) -> FileBytes:
    """At most `limit` bytes from the beginning of a file (`stores.base.Workspace.read`)."""
    with _reached(ground, below) as (folder, name):
        found = folder.look(name)
        if found is None:
            raise missing(path)
        if not stat.S_ISREG(found.st_mode):
            kind = "folder" if stat.S_ISDIR(found.st_mode) else "link or something else"
            raise no_file(path, f"a {kind} stands there")
        fd = folder.open(name)
        try:
            data = b"".join(anchor.pieces_of(fd, min(limit, os.fstat(fd).st_size)))
            return FileBytes(data, max(os.fstat(fd).st_size, len(data)))
        finally:
            os.close(fd)


def write(ground: Ground, path: str, data: bytes, mark: str, kept: PathState | None) -> None:
    """Make this the whole content of a file, durably (`stores.base.Workspace.write`)."""
    with _reached(ground, path, make=True) as (folder, name):
        found = folder.look(name)
        if found is not None:
            _check_replaceable(found, path)
        mode = None if found is None else stat.S_IMODE(found.st_mode) & 0o777
        temp = folder.temp_beside(name, mark)
        with contextlib.suppress(FileNotFoundError):
            folder.remove(temp)
        fd = folder.born(temp, mode)
        try:
            if found is not None and anchor.give_to(fd, found.st_uid, found.st_gid) and mode is not None:
                anchor.set_mode(fd, mode)
            _fill(fd, data, folder, name)
            _take_name(folder, temp, name, path, kept)
        except BaseException:
            with contextlib.suppress(OSError):
                folder.remove(temp)
            raise
        _sync(folder)


def _take_name(folder: Folder, temp: str, name: str, path: str, kept: PathState | None) -> None:
    """The temp file gets the name; what stood there is judged when nobody can change it under that name any more."""
    if kept is None:
        return folder.replace(temp, name)
    if kept == ABSENT:
        try:
            return folder.rename_new(temp, name)
        except FileExistsError:
            raise changed(path) from None
    if state_of(folder, name, counted, path) != kept:
        raise changed(path)
    try:
        exchanged = folder.exchange(temp, name)
    except FileNotFoundError:
        raise changed(path) from None
    if not exchanged:
        return folder.replace(temp, name)
    if state_of(folder, temp, counted, path) != kept:
        folder.exchange(temp, name)
        raise changed(path)
    return folder.remove(temp)


def delete(ground: Ground, path: str, mark: str, kept: PathState | None) -> None:
    """Remove a file or a link itself, durably (`stores.base.Workspace.delete`)."""
    with _reached(ground, path) as (folder, name):
        _check_movable(folder.look(name), path)
        if kept is None:
            folder.remove(name)
        else:
            _remove_kept(folder, name, path, mark, kept)
        _sync(folder)


def _remove_kept(folder: Folder, name: str, path: str, mark: str, kept: PathState) -> None:
    """Under another name nobody changes it any more; what is not as it was kept gets its name back."""
    aside = folder.temp_beside(name, mark)
    folder.rename_new(name, aside)
    if state_of(folder, aside, counted, path) != kept:
        folder.rename_new(aside, name)
        raise changed(path)
    folder.remove(aside)


def move(ground: Ground, path: str, to: str) -> None:
    """Give a file or a link another path that nothing has, durably (`stores.base.Workspace.move`)."""
    with _reached(ground, path) as (folder, name):
        _check_movable(folder.look(name), path)
        with _reached(ground, to, make=True) as (target, new):
            try:
                folder.rename_new(name, new, target)
            except FileExistsError:
                raise Refused(
                    f"{to!r} cannot be the new path of {path!r}: something stands there",
                    code="file_exists",
                    next="Choose a path that is free, or remove what stands there first.",
                    path=to,
                ) from None
            _sync(target)
        _sync(folder)


@contextmanager
def _reached(ground: Ground, path: str, *, make: bool = False) -> Iterator[tuple[Folder, str]]:
    """The folder a path is in; what the machine says there is told in our words."""
    try:
        with ground.folder_of(path, make=make) as reached:
            yield reached
    except FileNotFoundError:
        raise missing(path) from None
    except NotADirectoryError:
        if not make:
            raise missing(path) from None
        raise no_file(path, "on the way there is a link or something else that is no folder") from None
    except OSError as fault:
        if fault.errno == errno.ENAMETOOLONG:
            raise no_file(path, "its name is too long") from None
        raise failure(fault, ground.root / path, "change") from fault


def _fill(fd: int, data: bytes, folder: Folder, name: str) -> None:
    try:
        anchor.append(fd, (data,))
        try:
            os.fsync(fd)
        except OSError as fault:
            raise barrier_failed(fault, folder.path / name) from fault
    finally:
        os.close(fd)


def _sync(folder: Folder) -> None:
    try:
        folder.sync()
    except OSError as fault:
        raise barrier_failed(fault, folder.path) from fault


def _check_movable(found: os.stat_result | None, path: str) -> None:
    if found is None:
        raise missing(path)
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISLNK(found.st_mode):
        raise no_file(path, "a folder or something else stands there")


def _check_replaceable(found: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise no_file(path, "a folder, a link or something else stands there")
    if not found.st_mode & _OWNER_MAY_WRITE:
        raise Refused(
            f"{path!r} is read-only",
            code="file_read_only",
            next="Give its owner the right to write it, or write another file.",
            path=path,
        )


def changed(path: str) -> Refused:
    """Somebody changed it behind the look that kept it, so what stands there is kept nowhere."""
    return Refused(
        f"{path!r} was changed by somebody else a moment ago",
        code="file_changed",
        next="Look at it again, and decide anew.",
        path=path,
    )


def missing(path: str) -> NotFound:
    """No file is there."""
    return NotFound(
        f"there is no file {path!r} in the workspace",
        code="file_missing",
        next="Look which files there are with list_files.",
        path=path,
    )
