"""Looking at runs: rows, accounts, verdicts. Never writes and never locks; a later look may see more."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice, takewhile
from typing import Any

import msgspec

from clew.core.calls import CallState
from clew.core.folding import fold
from clew.core.guarding import checkpoint_of
from clew.core.ids import match_id
from clew.core.invariants import Checker
from clew.core.known import KnownEnd, held_against
from clew.core.outcome import effect_row
from clew.core.pruning import Uses
from clew.core.records import Record
from clew.core.resume import Facts, check_ours
from clew.core.snapshot import RunResult, effect_rows, outline, snapshot
from clew.core.state import RunState
from clew.errors import ClewError, Corrupt, NotFound
from clew.runtime.clock import Clock
from clew.runtime.ending import row
from clew.runtime.examined import facts_and_trouble, facts_at_end
from clew.runtime.listed import row_of, says_why
from clew.stores.base import BlobStore, Reading, RunStore, SessionStore, Tail, Upkeep

_SOUND = ("clean", "being_written")
# What a list reads of one journal at most: about a tenth of a second for whoever waits.
_LISTED_BYTES = 16 << 20
# A journal that is wrong everywhere would be told line by line.
_TOLD_FINDINGS = 100


class Seen(msgspec.Struct, frozen=True):
    """A run as a reader found it: its fold, how its file ends, and the checker, if it looked on."""

    state: RunState
    tail: Tail
    checker: Checker | None = None


class Reader:
    """Reads the runs of one store.

    Source:
        DESIGN §4, promise 11.
    """

    def __init__(
        self, store: RunStore, blobs: BlobStore, clock: Clock, upkeep: Upkeep | None = None,
        sessions: SessionStore | None = None,
    ) -> None:  # fmt: skip
        self.store = store
        self.sessions = sessions
        self.blobs = blobs
        self.clock = clock
        self.upkeep = upkeep

    def see(self, run_id: str) -> Seen:
        """Fold a run.

        Raises:
            NotFound: `unknown_run`.
            Corrupt: what stands in the journal is not what was written.
        """
        reading = self.store.read(run_id)
        state = fold(reading, run_id)
        return Seen(state, reading.tail)

    def examine(self, run_id: str, trace: list[dict[str, Any]] | None = None) -> Seen:
        """As `see`, with the invariant checker beside the fold; event envelopes are added to `trace`."""
        reading, checker = self.store.read(run_id), Checker(keep=_TOLD_FINDINGS)
        state = fold(_noting(reading, checker, trace), run_id)
        named = checker.session_id if state.own else None
        checker.end(None if named is None or self.sessions is None else facts_at_end(self.sessions, named))
        return Seen(state, reading.tail, checker)

    def find(self, part: str) -> str:
        """A run id from a unique part of it, or `@last` for the one that was started last."""
        ids = self.store.ids()
        if part != "@last":
            return match_id(part, ids)
        rows = [found for found in self.rows() if found.get("startedAt")]
        if not rows:
            raise NotFound("there is no run here yet", code="unknown_run", next="Start one with `clew run FILE:AGENT`.")
        return str(max(rows, key=lambda found: (found["startedAt"], found["runId"]))["runId"])

    def rows(self) -> list[dict[str, Any]]:
        """All runs, the last started first; one that cannot be read is a row that says why.

        Of each journal a bounded part is read: of a long one whose head is behind, the row is that of its head, and
        `unreadBytes` says how much of it the row does not know.
        """
        rows = [self.row(run_id, listed=_LISTED_BYTES) for run_id in self.store.ids()]
        return sorted(rows, key=lambda found: (found.get("startedAt", ""), found["runId"]), reverse=True)

    def row(self, run_id: str, *, listed: int | None = None) -> dict[str, Any]:
        """One run's row: from its head when that is as far as the journal, else from the journal.

        `listed`: do not read a journal that is longer than so many bytes to its end.
        """
        try:
            told = self._row(run_id, listed)
            waiting = [self._with_arguments(run_id, effect) for effect in told.get("waiting", ())]
            if "approvals" in told:
                asked = [self._with_arguments(run_id, each, "approval_required") for each in told["approvals"]]
                told = {**told, "approvals": asked}
        except ClewError as fault:
            return {
                "runId": run_id,
                "state": "unreadable",
                "shown": "unreadable",
                "reason": fault.code,
                "message": fault.message,
            }
        return {"runId": run_id, **told, "waiting": waiting, "shown": self.shown(told)}

    def _row(self, run_id: str, listed: int | None) -> dict[str, Any]:
        head, size = self.store.head(run_id), self.store.size_bytes(run_id)
        told = row_of(head)
        if head is not None and told is not None and head.size_bytes == size and says_why(told):
            return dict(told)
        # One that is shorter than its head says has lost records: it is read, and found to be corrupt, however long.
        if listed is not None and size > listed and (head is None or head.size_bytes <= size):
            if head is not None and told is not None:
                return told | {"unreadBytes": size - head.size_bytes}
            return self._beginning(run_id, listed // 16) | {"unreadBytes": size - listed // 16}
        seen = self.see(run_id)
        return row(seen.state) | ({} if seen.tail.verdict in _SOUND else {"tail": seen.tail.verdict})

    def _beginning(self, run_id: str, until: int) -> dict[str, Any]:
        """The row of a journal as it stood after so many bytes, or after its first record."""
        found = takewhile(lambda placed: placed[1] < until, self.store.read(run_id))
        return row(fold(found, run_id))

    def shown(self, told: dict[str, Any]) -> str:
        """The state in a reader's eyes: what the journal says, and whether the process of an open leg lives."""
        if "foreign" in told:
            return "foreign"
        state = str(told["state"])
        if told.get("leg") is None or state in ("completed", "failed"):
            return state
        if told.get("legClosed", True):
            # A leg that only settled something ends without moving the operation: nobody runs it.
            return "paused" if state == "paused" else "interrupted"
        owner = self.store.owner_state(told["leg"])
        alive = "running" if state == "paused" else state
        return {"alive": alive, "stopped": "stopped", "gone": "interrupted"}.get(owner, "owner_elsewhere")

    def records(self, run_id: str) -> Iterator[Record]:
        """The records of a run, in the order of the journal. `NotFound`, `Corrupt`."""
        return (record for record, _ in self.store.read(run_id))

    def effects(self, state: RunState) -> Iterator[dict[str, Any]]:
        """What is known of every effect of a run, with its recorded arguments, read one after another."""
        return (self.effect(state, call) for call in state.calls.values() if call.may_change_the_world)

    def effect(self, state: RunState, call: CallState) -> dict[str, Any]:
        """What is known of one effect, with its recorded arguments, and the checkpoint of its last attempt."""
        kept = checkpoint_of(state, call)
        known = {} if kept is None else {"checkpointId": kept.checkpoint_id}
        return self._with_arguments(state.run_id, {**effect_row(call), **known, "position": call.position})

    def _with_arguments(self, run_id: str, effect: dict[str, Any], kind: str = "tool_call") -> dict[str, Any]:
        told = {name: value for name, value in effect.items() if name != "position"}
        if "position" in effect:
            event = self.store.record_at(run_id, effect["position"]).payload.get("event")
            if type(event) is not dict or event.get("type") != kind:
                raise _not_its_call(run_id, effect)
            told["arguments"] = event.get("args", {})
        return told

    def account(self, run_id: str, facts: Facts | None = None) -> dict[str, Any]:
        """The snapshot of a run, all legs, of one look: its trace is of the very records that it counts."""
        trace: list[dict[str, Any]] = []
        seen = self.examine(run_id, trace)
        return snapshot(seen.state, facts or Facts(self.clock.now_ms()), trace=trace, integrity=_integrity(seen))

    def outline(self, seen: Seen) -> dict[str, Any]:
        """The snapshot of what was seen without what grows with the run: its trace is the end of the agent alone."""
        told = outline(seen.state, Facts(self.clock.now_ms()), integrity=_integrity(seen))
        return told | {"trace": [] if seen.state.agent_end is None else [{"event": seen.state.agent_end}]}

    def unrolled(self, seen: Seen) -> dict[str, Any]:
        """The snapshot of what was seen, trace and effects as iterators, for whoever passes them on and keeps none.

        The trace is of the records that were seen; `Corrupt` when they have changed since.
        """
        return self.outline(seen) | {"trace": self._trace(seen.state), "effects": effect_rows(seen.state)}

    def _trace(self, state: RunState) -> Iterator[dict[str, Any]]:
        seen = islice(self.records(state.run_id), state.sequence)
        return (record.payload for record in seen if record.kind == "event")

    def result(
        self, state: RunState, *, retry_in_s: float | None = None, facts: Callable[[], Facts] | None = None,
        fault: BaseException | None = None,
    ) -> RunResult:  # fmt: skip
        """The result of a run as it stands; `facts` are looked up when its snapshot is read.

        Raises:
            Corrupt: `operation_state_corrupt` when nothing says how the run stands.
            Refused: `foreign_run` when the program that began it did not record that.
        """
        if state.operation is None:
            check_ours(state)
            raise Corrupt(
                f"run {state.run_id!r} has no record of its operation",
                code="operation_state_corrupt",
                next=f"See what is there with `clew show {state.run_id} --log`.",
                run=state.run_id,
            )
        output = state.agent_end.get("output") if state.agent_end is not None and state.state == "completed" else None
        return RunResult(
            state,
            output=output,
            account=lambda: self.account(state.run_id, None if facts is None else facts()),
            retry_in_s=retry_in_s,
            fault=fault,
        )

    def verify(self, run_id: str, *, deep: bool = False, known: KnownEnd | None = None) -> dict[str, Any]:
        """Check a run's journal to its end and say what was found; nothing is changed.

        `deep`: ask the invariant checker as well, a second opinion; what it finds is told, it raises nothing.
        `known`: how far it had come when it was verified before; it must still be that journal, grown or not.

        Raises:
            Corrupt: with line and byte; of a deep look, with what the checker found in the member `findings`.
        """
        found = self._findings(run_id) if deep else {}
        try:
            return self._verified(run_id, known) | found
        except Corrupt as fault:
            fault.facts.update(found)
            raise

    def _findings(self, run_id: str) -> dict[str, Any]:
        """What the checker says of all that can be read, whether or not the fold can follow."""
        checker, own = Checker(keep=_TOLD_FINDINGS), False
        with suppress(Corrupt):
            for record, _ in self.store.read(run_id):
                checker.see(record)
                own = record.chain is not None
        # It is looked at behind the journal: while that was read it may have gone on, and the run with it.
        named = checker.session_id if own else None
        if named is None or self.sessions is None:
            checker.end()
            return _told(checker)
        facts, told = facts_and_trouble(self.sessions, named)
        checker.end(facts)
        return _told(checker) | {"session": told}

    def _verified(self, run_id: str, known: KnownEnd | None) -> dict[str, Any]:
        reading, uses = self.store.read(run_id), Uses(run_id)
        state = fold(_using(reading if known is None else held_against(reading, known), uses), run_id)
        seen = Seen(state, reading.tail)
        head = self.store.head(run_id)
        missing = unreadable_blobs(self.blobs, state) | {each for each in uses.kept if not self.blobs.has(each)}
        pruned = self.upkeep.pruned(run_id) if self.upkeep is not None and missing else {}
        return {
            "runId": run_id,
            "records": seen.state.sequence,
            "chained": seen.state.own,
            "chain": seen.state.chain,
            "head": None if head is None else head.sequence,
            **({} if known is None else {"known": known.records}),
            "tail": msgspec.to_builtins(seen.tail),
            "legs": len(seen.state.legs),
            "state": seen.state.state,
            "missingBlobs": sorted(digest for digest in missing if digest not in pruned),
            "prunedBlobs": {digest: pruned[digest] for digest in sorted(missing) if digest in pruned},
        }


def _not_its_call(run_id: str, effect: dict[str, Any]) -> Corrupt:
    return Corrupt(
        f"the head of run {run_id!r} says that call {effect['callId']!r} stands at byte {effect['position']} of its "
        "journal, where another record is",
        code="head_corrupt",
        next=f"Check the journal with `clew verify {run_id}`.",
        run=run_id,
        byte=effect["position"],
    )


def _integrity(seen: Seen) -> dict[str, Any]:
    found = {} if seen.checker is None else _told(seen.checker)
    return {
        "own": seen.state.own,
        "sequence": seen.state.sequence,
        "chain": seen.state.chain,
        "tail": msgspec.to_builtins(seen.tail),
        **found,
    }


def _told(checker: Checker) -> dict[str, Any]:
    """The first findings, and how many there are."""
    return {"findings": [finding.as_json() for finding in checker.found], "findingCount": checker.count}


def _noting(reading: Reading, checker: Checker, trace: list[dict[str, Any]] | None) -> Iterator[tuple[Record, int]]:
    """The records of a reading, shown to the checker, their event envelopes noted on the way."""
    look = checker.see
    for record, position in reading:
        look(record)
        if trace is not None and record.kind == "event":
            trace.append(record.payload)
        yield record, position


def _using(reading: Iterable[tuple[Record, int]], uses: Uses) -> Iterator[tuple[Record, int]]:
    """The records of a reading; what they refer to is noted once they have been judged."""
    for record, position in reading:
        yield record, position
        uses.see(record)


def unreadable_blobs(blobs: BlobStore, state: RunState) -> frozenset[str]:
    """Digests of answers whose bytes are missing or differ."""
    return frozenset(digest for digest in _digests(state) if not blobs.has(digest))


def _digests(state: RunState) -> Iterable[str]:
    answers = [call.answer for call in state.calls.values()]
    answers += [turn.answer for turn in state.turns.values()]
    answers += list(state.steps.values())
    return (answer.blob for answer in answers if answer is not None and answer.blob is not None)
