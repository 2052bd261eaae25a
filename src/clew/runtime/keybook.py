"""Who has which business key: looked up, and the index made to hold what the journals hold. Starts nothing."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

from clew.core.answers import Answer, read_answer
from clew.core.calls import CallState
from clew.core.canon import fingerprint_text
from clew.core.folding import fold
from clew.core.jsonable import to_json
from clew.core.keys import BusinessKey, Claim, Standing, judge, key_text, recorded_key, word_of
from clew.core.records import Record
from clew.core.times import format_ms
from clew.errors import ClewError, Corrupt, NotFound, Refused, Storage
from clew.runtime.clock import Clock, new_nonce
from clew.stores.base import BlobStore, KeyIndex, Reading, RunStore

SHOWN: Final = 20
"""So many examples of each kind of difference a rebuild tells."""
_NOT_THE_RUNS: Final = ("home_copied", "home_layout_unknown", "home_file_corrupt", "key_claim_corrupt")


class Rebuilt(msgspec.Struct, rename="camel"):
    """What a rebuild found: how many runs and held keys, and the first of each kind of difference, with their number.

    `added` were held by a journal and not by the index; `conflicts` are held by two calls; `unreadable` are runs, or
    claims of runs, of which nobody can tell. While there are unreadable runs, the index is not complete.
    """

    runs: int = 0
    held: int = 0
    free: int = 0
    complete: bool = False
    counts: dict[str, int] = {}
    added: list[dict[str, Any]] = []
    conflicts: list[dict[str, Any]] = []
    unreadable: list[dict[str, Any]] = []

    def note(self, kind: str, one: dict[str, Any]) -> None:
        """Count a difference, and keep it if it is among the first."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= SHOWN:
            getattr(self, kind).append(one)


class KeyBook:
    """The business keys of one home as its index and its journals tell them. Holds nothing; safe for threads."""

    def __init__(self, index: KeyIndex | None, store: RunStore, blobs: BlobStore, clock: Clock) -> None:
        self._index = index
        self.store = store
        self.blobs = blobs
        self.clock = clock

    # Looking.

    def find(self, key: Any, tool: str | None = None) -> list[dict[str, Any]]:
        """Who has a key, one row for each tool of which a call has it. Reads no journal but the holders'.

        Raises:
            NotFound: `no_key_index`. UsageError: `invalid_business_key`, `value_not_json`. Corrupt.
        """
        index, sha256 = self.required(), fingerprint_text(key_text(to_json(key, at="key")))
        if not index.mark():
            raise NotFound(
                "this home has no index of business keys: nothing with a key was started here, or it was removed",
                code="no_key_index",
                next="If there should be one, build it from the journals: `clew find --rebuild`.",
            )
        if tool is None:
            found = index.of_key(sha256)
        else:
            last = index.last(sha256, tool)
            found = [] if last is None else [last[1]]
        return [row for claim in found for row in self._rows(claim)]

    def _rows(self, claim: Claim) -> Iterator[dict[str, Any]]:
        standing = self._seen(claim)
        if not standing.holds:
            return
        row = facts_of(claim, standing) | {"tool": claim.tool, "claimedAt": claim.at}
        call = standing.call
        if call is not None:
            if call.started_ms:
                row["startedAt"] = format_ms(call.started_ms)
            answer = self.read_answer(claim.run_id, call)
            if answer is not None:
                error = None if answer.error is None else {"kind": answer.error.kind, "message": answer.error.message}
                row["answer"] = {"value": answer.value, "error": error}
        yield row

    def _seen(self, claim: Claim) -> Standing:
        """What a reader may say of a claim: it takes no lock, so a process that is gone is believed to be."""
        try:
            state = fold(self.store.read(claim.run_id), claim.run_id)
        except ClewError:
            return Standing("unreadable")
        standing = judge(state, claim)
        leg = state.unclosed_leg
        if standing.word == "starting" and leg is not None and self.store.owner_state(leg.owner) == "gone":
            return Standing("free", standing.call)
        return standing

    # Building.

    def rebuild(self) -> Rebuilt:
        """Make the index hold what the journals hold, run by run. Claims are added, none is taken back.

        Raises:
            Refused: `home_copied`, `key_index_unusable`. Storage.
        """
        index, report = self.required(), Rebuilt()
        for run_id in sorted(self.store.ids()):
            report.runs += 1
            try:
                self._add_run(index, run_id, report)
            except NotFound:
                # An empty file: a run is born with its first records, so this was never one.
                continue
            except ClewError as fault:
                if fault.code in _NOT_THE_RUNS or fault.exit_code == Storage.exit_code:
                    raise
                report.note("unreadable", {"run": run_id, "code": fault.code, "message": fault.message})
        sound = not report.unreadable
        self._look_over(index, report)
        if sound:
            index.complete(new_nonce(self.clock), format_ms(self.clock.now_ms()))
            report.complete = True
        return report

    def _add_run(self, index: KeyIndex, run_id: str, report: Rebuilt) -> None:
        keys: dict[str, tuple[BusinessKey, str]] = {}
        state = fold(_noting(self.store.read(run_id), keys), run_id)
        for step, (key, at) in keys.items():
            call = state.calls.get(step)
            assert call is not None, "a fold knows every call that it read"
            if word_of(call) == "free":
                continue
            report.held += 1
            claim = Claim(
                1, call.tool, key.sha256, key.text, run_id, step, call.call_id, call.key, call.attempt,
                "" if state.leg is None else state.leg.nonce, at,
            )  # fmt: skip
            self._add(index, claim, report)

    def _add(self, index: KeyIndex, claim: Claim, report: Rebuilt) -> None:
        """A claim that a journal holds, unless the index has it."""
        while True:
            number, other = index.last(claim.sha256, claim.tool) or (0, None)
            if other is not None and other.idempotency_key == claim.idempotency_key:
                return
            told = {"tool": claim.tool, "key": claim.text, "run": claim.run_id, "step": claim.step_id}
            if other is not None:
                standing = self._seen(other)
                if standing.holds:
                    report.note("conflicts", told | {"other": facts_of(other, standing)})
                    return
            if index.take(number + 1, claim):
                report.note("added", told)
                return

    def _look_over(self, index: KeyIndex, report: Rebuilt) -> None:
        """Count what is free, and name the claims of which no journal tells."""
        for claim in index.claims():
            standing = self._seen(claim)
            if standing.word == "unreadable":
                told = {"run": claim.run_id, "code": "journal_silent", "message": f"key {claim.text!r}"}
                report.note("unreadable", told)
            report.free += not standing.holds

    def built(self, index: KeyIndex) -> str:
        """The mark of an index that was not there: it is built now, if every journal can be read."""
        report = self.rebuild()
        if not report.complete:
            runs = ", ".join(str(one["run"]) for one in report.unreadable[:3])
            raise Refused(
                f"there is no index of business keys, and none can be built: nobody can read {runs}",
                code="key_index_unusable",
                next="Mend or restore these journals (`clew verify`), then `clew find --rebuild`.",
                unreadable=report.unreadable,
            )
        return index.mark()

    def judged(self, claim: Claim) -> Standing:
        """What a claim is worth by its run's journal, as a reader finds it now."""
        try:
            return judge(fold(self.store.read(claim.run_id), claim.run_id), claim)
        except (NotFound, Corrupt):
            return Standing("unreadable")

    def read_answer(self, run_id: str, call: CallState) -> Answer | None:
        """A call's answer, None when it cannot be read."""
        if call.answer is None:
            return None
        with suppress(ClewError, ValueError):
            event = self.store.record_at(run_id, call.answer.position).payload["event"]
            return read_answer(event, None if call.answer.blob is None else self.blobs.get(call.answer.blob))
        return None

    def required(self) -> KeyIndex:
        """The index. `Refused` (`key_index_unusable`) where there can be none."""
        if self._index is None:
            raise Refused(
                "this home has no index of business keys: its store is not one of ours",
                code="key_index_unusable",
                next="Open it with an index beside its store: clew.Home(store=…, keys=…).",
            )
        return self._index


def _noting(reading: Reading, keys: dict[str, tuple[BusinessKey, str]]) -> Iterator[tuple[Record, int]]:
    """The records of a reading; the business keys of its calls are noted on the way, by step."""
    for record, position in reading:
        event = record.payload.get("event") if record.kind == "event" else None
        yield record, position
        # After it was judged: what is no key never gets here.
        if type(event) is dict and event.get("type") == "tool_call" and "businessKey" in event:
            key = recorded_key(event)
            assert key is not None
            keys[event["stepId"]] = (key, record.timestamp)


def facts_of(claim: Claim, standing: Standing) -> dict[str, Any]:
    """Who has a key, for programs."""
    return {
        "businessKey": claim.text,
        "sha256": claim.sha256,
        "run": claim.run_id,
        "step": claim.step_id,
        "call": claim.call_id,
        "key": claim.idempotency_key,
        "attempt": claim.attempt if standing.call is None else max(1, standing.call.attempt),
        "state": standing.word,
    }
