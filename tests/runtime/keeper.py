"""A run whose calls change real files, written as the gate writes it; and how a folder stands, to the byte."""

import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import clew
from clew.core import guarding
from clew.core.checkpoint import Manifest
from clew.core.events import leg_ended, receipt
from clew.core.needs import Guarded, Looked
from clew.runtime.journal import Journal
from clew.runtime.recovery import end_leg, give_birth
from tests.histories import CONFIG, EDIT, completed, facts, paused, proposed, returned

RUN = "r1"
WHO: Final[dict[str, Any]] = {"by": "ann", "reason": "wrong branch"}

Standing = dict[bytes, tuple[str, bytes, int]]


class Keeper:
    """One folder with a home in it, and one run there. Each call keeps its paths before and after it changes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = clew.Home(folder / ".clew", takeover="proven")
        self.journal: Journal | None = None
        self.calls = 0

    def begin(self) -> Journal:
        """The run is born; again only after `end`."""
        reader = self.home.reader
        start = {"configName": "editor", "schemaVersion": 1, "configFingerprint": "f" * 64, "initialPrompt": "edit"}
        start |= {"configParts": CONFIG, "workspace": ".", "operationId": "", "leg": None}
        self.journal = self.journal or give_birth(reader.store, reader.clock, RUN, start)
        return self.journal

    def call(
        self, paths: Iterable[str], deed: Callable[[], Any] = lambda: None, *, dies: bool = False,
        expects: Manifest | None = None, reversible: bool = True,
    ) -> str:  # fmt: skip
        """One call that declares these paths and does this; `dies`: nobody hears of it. Returns its checkpoint's id."""
        journal, wanted = self.begin(), list(paths)
        self.calls += 1
        call, blobs, workspace = facts(self.calls, EDIT, run_id=RUN), self.home.reader.blobs, self.home.workspace
        found = Guarded(workspace.stand(wanted, keep=blobs), expects, reversible=reversible)
        journal.append([*proposed(call), guarding.kept(call, 1, found), receipt(call, 1, "started")], starts=True)
        deed()
        if not dies:
            after = guarding.left(call, 1, Looked(workspace.stand(wanted, keep=blobs)))
            answer, committed, told = returned(call)
            journal.append([answer, committed, after, told])
        return f"k{self.calls}"

    def end(self, how: str = "completed") -> None:
        """The leg is over: the run is `completed`, `paused`, or its process is gone (`dead`)."""
        journal = self.begin()
        endings: dict[str, list[Any]] = {"completed": completed(), "paused": paused(), "dead": []}
        if endings[how]:
            journal.append(endings[how])
        end_leg(journal)

    def edit(self, path: str, data: bytes, **how: Any) -> str:
        """A call that gives one file another content."""
        return self.call([path], lambda: (self.folder / path).write_bytes(data), **how)

    def writing(self, *paths: str, data: bytes = b"call") -> Callable[[], None]:
        """What a call does that gives all of these one content."""

        def deed() -> None:
            for path in paths:
                (self.folder / path).write_bytes(data)

        return deed

    def restore(self, checkpoint: str, *paths: str, **how: Any) -> dict[str, str]:
        """Put it back; what became of each path."""
        return outcomes(self.report(checkpoint, *paths, **how))

    def report(self, checkpoint: str, *paths: str, **how: Any) -> dict[str, Any]:
        """The whole report of a restore."""
        return self.home.restore(RUN, checkpoint, paths, **{**WHO, **how})

    @property
    def restored(self) -> list[dict[str, Any]]:
        """What the journal says of restores."""
        payloads = (record.payload for record in self.home.reader.records(RUN) if record.kind == "event")
        return [payload["event"] for payload in payloads if payload["event"]["type"] == "restored"]


def outcomes(report: dict[str, Any]) -> dict[str, str]:
    """What became of each path."""
    return {each["path"]: each["outcome"] for each in report["paths"]}


def closed(journal: Journal) -> None:
    """Close a leg that neither paused nor finished the run."""
    leg = journal.state.unclosed_leg
    assert leg is not None
    journal.append([leg_ended(leg.number)])
    end_leg(journal)


def standing(folder: Path) -> Standing:
    """Every path below a folder, the home apart: kind, content or target, and mode."""
    found: Standing = {}
    for place, names, files in os.walk(os.fsencode(folder)):
        names[:] = [name for name in names if name not in (b".clew", b".git")]
        for name in [*names, *files]:
            whole = os.path.join(place, name)
            found[os.path.relpath(whole, os.fsencode(folder))] = one(whole)
        names[:] = [name for name in names if not os.path.islink(os.path.join(place, name))]
    return found


def one(whole: bytes) -> tuple[str, bytes, int]:
    """One path itself, never what a link leads to."""
    told = os.lstat(whole)
    if stat.S_ISLNK(told.st_mode):
        return "link", os.readlink(whole), 0
    if stat.S_ISDIR(told.st_mode):
        return "folder", b"", stat.S_IMODE(told.st_mode)
    return "file", Path(os.fsdecode(whole)).read_bytes(), stat.S_IMODE(told.st_mode)
