"""A doctor's questions to a home, looked up run by run in bounded room. Judges, writes and locks nothing."""

import platform
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import msgspec

from clew.core.checkup import Checkup, Some, Survey
from clew.core.records import Head
from clew.core.state import RunState
from clew.errors import ClewError
from clew.runtime.ending import row
from clew.runtime.examined import look_over
from clew.runtime.listed import row_of
from clew.runtime.reader import Reader
from clew.runtime.recovery import VERSION
from clew.runtime.tools import Agent

_OVER = ("completed", "failed")


def check_up(reader: Reader, survey: Callable[[], Survey], agent: Agent | None = None) -> Checkup:
    """Look up all that a doctor goes by.

    Of a run that has ended only the head is read, where it is as far as the journal; all others are read to the end.

    Args:
        reader: Of the home's runs.
        survey: How the store looks over its folder.
        agent: Whose tools are looked at as well.

    Returns:
        What was found, of each kind its number and the first examples; a run that cannot be read is one of them.
    """
    folder = survey()
    rounds = _Rounds(reader)
    for run_id in rounds.run_ids():
        rounds.visit(run_id)
    before_s = reader.clock.monotonic_s()
    return Checkup(
        survey=folder,
        now_ms=reader.clock.now_ms(),
        monotonic=reader.clock.monotonic_s() >= before_s,
        newest=rounds.newest[0],
        newest_run=rounds.newest[1],
        versions={"clew": VERSION, "python": platform.python_version(), "msgspec": msgspec.__version__},
        runs=rounds.runs,
        believed=rounds.believed,
        alive=len(rounds.alive),
        unreadable=rounds.found["unreadable"],
        worst_exit=rounds.worst_exit,
        gone=rounds.found["interrupted"],
        stopped=rounds.found["stopped"],
        elsewhere=rounds.found["owner_elsewhere"],
        torn=rounds.found["torn"],
        uncertain=rounds.found["uncertain"],
        unnamed=Some.of(_unnamed(reader, folder)),
        waiting=Some.of(each for each in folder.commands if each["run"] not in rounds.alive),
        undeclared=Some.of([{"tool": tool, "run": run_id} for tool, run_id in _undeclared(rounds, agent).items()]),
        talks=look_over(reader.sessions),
    )


class _Rounds:
    """One walk over all runs, and what it has met so far."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.runs = 0
        self.believed = 0
        self.worst_exit = 0
        self.alive: set[str] = set()
        self.newest = ("", "")
        self.found: dict[str, Some] = defaultdict(Some)
        self.tools: dict[str, str] = {}

    def run_ids(self) -> list[str]:
        """All runs; that they cannot be listed is found out as well, and the rest of the home is looked over."""
        try:
            return sorted(self._reader.store.ids())
        except ClewError as fault:
            self._unreadable("", fault)
            return []

    def visit(self, run_id: str) -> None:
        """One more run."""
        self.runs += 1
        try:
            told = self._row(run_id)
            shown = self._reader.shown(told)
        except ClewError as fault:
            self._unreadable(run_id, fault)
            return
        self.newest = max(self.newest, (str(told.get("updatedAt", "")), run_id))
        if shown in ("accepted", "running", "aborting"):
            self.alive.add(run_id)
        elif shown in ("interrupted", "stopped", "owner_elsewhere"):
            leg = told.get("leg") or {}
            self._meet(shown, run=run_id, **{name: leg.get(name) for name in ("pid", "host", "nonce")})
        self._meet_effects(run_id, told)

    def _unreadable(self, run_id: str, fault: ClewError) -> None:
        self.worst_exit = max(self.worst_exit, fault.exit_code)
        told = {"code": fault.code, "message": fault.message, "next": fault.next, "exit": fault.exit_code}
        self._meet("unreadable", run=run_id, **told, **{name: fault.facts.get(name) for name in ("line", "byte")})

    def _row(self, run_id: str) -> dict[str, Any]:
        store = self._reader.store
        head = store.head(run_id)
        told = row_of(head)
        if head is not None and told is not None and _ended(head, store.size_bytes(run_id)):
            self.believed += 1
            return told
        seen = self._reader.see(run_id)
        if seen.tail.verdict == "torn":
            self._meet("torn", run=run_id)
        self._note_tools(seen.state)
        return row(seen.state)

    def _note_tools(self, state: RunState) -> None:
        for call in state.calls.values():
            if call.capability is not None and call.capability.source == "inferred":
                self.tools.setdefault(call.tool, state.run_id)

    def _meet_effects(self, run_id: str, told: dict[str, Any]) -> None:
        first = next(iter(told.get("waiting") or ()), None)
        if first is not None and run_id not in self.alive:
            self._meet("uncertain", run=run_id, effects=told["waitingCount"], tool=first["tool"], step=first["stepId"])

    def _meet(self, kind: str, **one: Any) -> None:
        self.found[kind] = self.found[kind].plus(**one)


def _ended(head: Head, size_bytes: int) -> bool:
    """Does the head tell the whole of a run that is over?"""
    return head.row.get("state") in _OVER and head.size_bytes == size_bytes


def _unnamed(reader: Reader, folder: Survey) -> list[dict[str, str]]:
    """The kept pieces that no record names: a death came between cutting and recording."""
    runs = dict.fromkeys(piece["run"] for piece in folder.pieces)
    named = {run_id: _named(reader, run_id) for run_id in runs}
    return [piece for piece in folder.pieces if piece["name"] not in named[piece["run"]]]


def _named(reader: Reader, run_id: str) -> set[str]:
    names: set[str] = set()
    try:
        for record in reader.records(run_id):
            repaired = record.payload.get("tailRepaired") if record.kind == "resume" else None
            if repaired:
                names |= {str(piece.get("keptAs")) for piece in (repaired, *repaired.get("earlier", ()))}
    except ClewError:
        # That the journal cannot be read is told by itself; what it did name is known.
        pass
    return names


def _undeclared(rounds: _Rounds, agent: Agent | None) -> dict[str, str]:
    """Tools that say nothing of their effect, and the run where one was met first; those of the agent first."""
    tools = {} if agent is None else agent.tools
    silent = {name: "" for name, tool in tools.items() if tool.capability.source == "inferred"}
    return {**rounds.tools, **silent}
