"""One path that is to stand otherwise, if it stands as said: compare and swap on a disk. Which paths, others decide.

What stands there is never written over. It changes names with what shall stand there, is then looked at once more,
and goes only if it is what was said; if not, the names are changed back. So nobody's bytes are lost in the moment
between a look and a deed. Names beside the path are used, the same at each try, so that a death is made up for:
`new`, where what comes is made, and nothing of anybody else is ever; `temp`, which it has when all of it is on the
device, and where what was taken out stands until it is judged; and `aside`, where what only goes is judged. A fourth,
`half`, says that a folder which nobody may change stands open until what belongs in it is there.
"""

import base64
import contextlib
import hashlib
import os
from typing import Final

from clew.core.checkpoint import ABSENT, PathState
from clew.disk import anchor
from clew.disk.anchor import Folder, is_not_empty
from clew.disk.failures import barrier_failed, failure
from clew.errors import ClewError, Refused
from clew.stores.base.kept import BlobStore
from clew.stores.base.workspace import PutBack, PutBackEnd, PutBackOutcome
from clew.stores.ground import counted, state_of

_OWNER: Final = 0o700
_RIGHTS: Final = 0o777


class Stays(Exception):
    """The path is not put back; `end` says why."""

    def __init__(self, end: PutBackEnd) -> None:
        super().__init__(end.why)
        self.end = end


class Swap:
    """The putting back of one path. Lives while its folder is open.

    Attributes:
        began: Has the path itself been touched, and is not yet known to be on disk as it is now?
    """

    def __init__(self, folder: Folder, name: str, step: PutBack, blobs: BlobStore, mark: str) -> None:
        self._folder = folder
        self._name = name
        self._step = step
        self._blobs = blobs
        self._new = beside(name, f"{mark}:{step.path}:new")
        self._temp = beside(name, f"{mark}:{step.path}")
        self._aside = beside(name, f"{mark}:{step.path}:aside")
        self._half = beside(name, f"{mark}:{step.path}:half")
        self.began = False

    def run(self) -> PutBackEnd:
        """Put it back.

        Raises:
            Stays: a conflict, or the machine refused.
        """
        try:
            outcome = self._run()
        except OSError as fault:
            raise self._refused(failure(fault, self._folder.path / self._name, "put back")) from fault
        except ClewError as fault:
            raise self._refused(fault) from fault
        return PutBackEnd(self._step.path, outcome, self._step.wanted)

    def _refused(self, fault: ClewError) -> Stays:
        outcome: PutBackOutcome = "unknown" if self.began else "failed"
        with contextlib.suppress(OSError, ClewError, Stays):
            self._settle_temp()
        return Stays(PutBackEnd(self._step.path, outcome, None, fault.message, fault.code))

    def _run(self) -> PutBackOutcome:
        self._settle_aside()
        self._settle_temp()
        found, wanted = self._step.found, self._step.wanted
        now = self._state(self._name)
        half = self._is_half_made(now)
        if now == wanted or (now != found and not half):
            self._forget_half()
        if now == wanted:
            return "unchanged"
        if now != found and not half:
            raise self._conflict(now, "it is not as it was left")
        if half or (now.kind == wanted.kind != "link" and now.sha256 == wanted.sha256):
            self._change_mode()
        elif wanted == ABSENT:
            self._take_away()
        elif now == ABSENT:
            self._place()
        else:
            self._swap()
        return "restored"

    # What an earlier death left beside the path.

    def _settle_aside(self) -> None:
        out = self._state(self._aside)
        if out == ABSENT:
            return
        if self._folder.look(self._name) is None:
            self._folder.rename_new(self._aside, self._name)
            self._sync()
        elif out == self._step.found:
            self._drop(self._aside)
        else:
            raise self._kept_beside(self._aside)

    def _settle_temp(self) -> None:
        # A power cut may have left anything of it.
        if self._folder.look(self._new) is not None:
            self._drop(self._new)
        out = self._state(self._temp)
        if out == ABSENT or ((out == self._step.found or self._is_ours(out)) and self._drop(self._temp)):
            return
        # The death came when somebody else's content had been taken out, and before it was given back.
        if self._state(self._name) == self._step.wanted and self._folder.exchange(self._temp, self._name):
            self._sync()
            if self._drop(self._temp):
                return
        raise self._kept_beside(self._temp)

    def _is_ours(self, out: PathState) -> bool:
        """Is it what we have made?"""
        wanted = self._step.wanted
        return (out.kind, out.target, out.sha256) == (wanted.kind, wanted.target, wanted.sha256)

    def _is_half_made(self, now: PathState) -> bool:
        """Is it a folder that we made, whose mode is to follow when what belongs in it is there?"""
        mode = self._step.wanted.mode or 0
        open_too = now.kind == self._step.wanted.kind == "folder" and now.mode == mode | _OWNER
        return open_too and self._folder.look(self._half) is not None

    def _forget_half(self) -> None:
        if self._step.wanted.kind == "folder" and self._folder.look(self._half) is not None:
            self._folder.remove(self._half)

    # Deeds. What was found is judged again by what was taken out.

    def _change_mode(self) -> None:
        """Its content is as wanted, so it is not touched, nor are its times."""
        wanted = self._step.wanted
        mode = wanted.mode or 0
        if wanted.kind == "folder":
            self.began = True
            self._folder.set_folder_mode(self._name, mode)
            self._forget_half()
        else:
            fd = self._folder.open(self._name)
            try:
                self.began = True
                anchor.set_mode(fd, mode)
                os.fsync(fd)
            finally:
                os.close(fd)
        now = self._state(self._name)
        if now != wanted:
            raise self._conflict(now, "somebody changed it meanwhile")
        self.began = False

    def _take_away(self) -> None:
        if self._step.found.kind == "folder":
            return self._take_folder_away()
        self._folder.rename_new(self._name, self._aside)
        self.began = True
        out = self._state(self._aside)
        if out != self._step.found:
            self._return_aside()
            raise self._conflict(out, "somebody changed it meanwhile")
        self._folder.remove(self._aside)
        return self._sync()

    def _take_folder_away(self) -> None:
        try:
            self._folder.remove_folder(self._name)
        except OSError as fault:
            if not is_not_empty(fault):
                raise
            raise self._conflict(self._step.found, "the folder is not empty") from None
        self.began = True
        self._sync()

    def _return_aside(self) -> None:
        try:
            self._folder.rename_new(self._aside, self._name)
        except FileExistsError:
            self._sync()
            raise self._kept_beside(self._aside) from None
        self._sync()

    def _place(self) -> None:
        self._make()
        try:
            self._folder.rename_new(self._new, self._name)
        except FileExistsError:
            self._drop(self._new)
            raise self._conflict(self._state(self._name), "somebody made it meanwhile") from None
        self.began = True
        self._sync()

    def _swap(self) -> None:
        if self._step.found.kind == "folder":
            self._require_empty()
        made = self._make()
        self._folder.rename_new(self._new, self._temp)
        try:
            exchanged = self._folder.exchange(self._temp, self._name)
        except FileNotFoundError:
            self._drop(self._temp)
            raise self._conflict(ABSENT, "somebody removed it meanwhile") from None
        if not exchanged:
            return self._swap_apart()
        self.began = True
        out = self._state(self._temp)
        if out != self._step.found or not self._drop(self._temp):
            self._give_back(made)
            raise self._conflict(out, "somebody changed it meanwhile")
        return self._sync()

    def _give_back(self, made: tuple[int, ...]) -> None:
        """What was taken out gets its name back, and what we made goes, unless somebody has changed that by now."""
        try:
            self._folder.exchange(self._temp, self._name)
        except FileNotFoundError:
            self._folder.rename_new(self._temp, self._name)
            return self._sync()
        if self._signature(self._temp) == made and self._drop(self._temp):
            return self._sync()
        self._folder.exchange(self._temp, self._name)
        self._sync()
        raise self._kept_beside(self._temp)

    def _swap_apart(self) -> None:
        """Where names cannot be exchanged: for a moment nothing stands there."""
        self._folder.rename_new(self._name, self._aside)
        self.began = True
        out = self._state(self._aside)
        if out != self._step.found:
            self._return_aside()
            self._drop(self._temp)
            raise self._conflict(out, "somebody changed it meanwhile")
        try:
            self._folder.rename_new(self._temp, self._name)
        except FileExistsError:
            self._drop(self._temp)
            raise self._kept_beside(self._aside) from None
        if not self._drop(self._aside):
            self._folder.rename_new(self._name, self._temp)
            self._return_aside()
            self._drop(self._temp)
            raise self._conflict(out, "the folder is not empty")
        self._sync()

    def _make(self) -> tuple[int, ...]:
        """What shall stand there, whole and synced under the name `new`; its signature."""
        wanted, mode = self._step.wanted, self._step.wanted.mode or 0
        if wanted.kind == "folder":
            if mode & _OWNER != _OWNER:
                with contextlib.suppress(FileExistsError):
                    os.close(self._folder.born(self._half, 0o600))
                self._folder.sync()
            self._folder.make_folder(self._new, mode | _OWNER)
        elif wanted.kind == "link":
            self._folder.make_link(self._new, wanted.target or "")
        else:
            # Whose it is and by whose rights it runs it gets last: a new owner and every write take such rights away.
            fd = self._folder.born(self._new, mode & _RIGHTS)
            try:
                model = self._folder.look(self._name) or self._folder.look(".")
                given = model is not None and anchor.give_to(fd, model.st_uid, model.st_gid)
                anchor.append(fd, self._blobs.pieces(wanted.sha256 or ""))
                if given or mode != mode & _RIGHTS:
                    anchor.set_mode(fd, mode)
                anchor.require_mode(fd, mode)
                os.fsync(fd)
            except BaseException:
                self._folder.remove(self._new)
                raise
            finally:
                os.close(fd)
        return self._signature(self._new)

    def _require_empty(self) -> None:
        with self._folder.enter(self._name) as inside:
            if inside.names():
                raise self._conflict(self._step.found, "the folder is not empty")

    # Small deeds.

    def _state(self, name: str) -> PathState:
        try:
            return state_of(self._folder, name, counted, self._step.path)
        except Refused as fault:
            raise Stays(PutBackEnd(self._step.path, "conflict", None, fault.message, fault.code)) from None

    def _signature(self, name: str) -> tuple[int, ...]:
        found = self._folder.look(name)
        return () if found is None else (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)

    def _drop(self, name: str) -> bool:
        """Remove what stands under one of our names; False for a folder that is not empty."""
        if self._state(name).kind != "folder":
            self._folder.remove(name)
            return True
        try:
            self._folder.remove_folder(name)
        except OSError as fault:
            if is_not_empty(fault):
                return False
            raise
        return True

    def _sync(self) -> None:
        try:
            self._folder.sync()
        except OSError as fault:
            raise barrier_failed(fault, self._folder.path) from fault
        self.began = False

    def _conflict(self, now: PathState, why: str) -> Stays:
        return Stays(PutBackEnd(self._step.path, "conflict", now, why))

    def _kept_beside(self, name: str) -> Stays:
        why = f"somebody changed it twice meanwhile: what stood there before is kept beside it as {name!r}"
        return Stays(PutBackEnd(self._step.path, "conflict", None, why))


def beside(name: str, key: str) -> str:
    """The name of a temp file beside another, the same for the same key; `disk.files.is_temp` knows it."""
    digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()[:10]
    return f".{name[:40]}.{base64.b32encode(digest).decode().lower()}.tmp"
