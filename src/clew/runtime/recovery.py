"""How a leg is opened: a run is born, or an existing one is taken over by proof, its end mended, its past named."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from clew.core.compose import OPERATION_ID, Close, Move, Saying, compose
from clew.core.events import Event, control, leg_ended, quiescence_timeout
from clew.core.events import error as event_error
from clew.core.folding import fold
from clew.core.legs import Leg, Purpose
from clew.core.outcome import Outcome
from clew.core.records import Draft
from clew.core.resume import ResumePlan, check_ours
from clew.core.state import RunState
from clew.core.times import format_ms
from clew.errors import Held, Stop
from clew.runtime.clock import Clock, new_nonce
from clew.runtime.journal import Journal
from clew.runtime.logs import listener
from clew.runtime.stilling import PATIENCE_S
from clew.stores.base import Proof, RunStore, RunWriter, Tail, TailRepaired

VERSION = "0.1.0"
Takeover = Literal["refuse", "operator", "proven"]
_ended_here: set[str] = set()


class Waiver(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What a person accepted although it was not as recorded: what, who, why."""

    accepted: str
    by: str
    reason: str
    changed: list[str] = []
    config_parts: dict[str, str] | None = None
    kept_sequence: int = 0
    head_sequence: int = 0


class Unlock(msgspec.Struct, frozen=True):
    """A person's statement that the owner of a leg is gone, where no proof is possible."""

    nonce: str
    by: str
    reason: str


def owner_of_leg(store: RunStore, number: int, nonce: str, purpose: Purpose) -> dict[str, Any]:
    """The member `leg` of a start or resume record."""
    me = store.identity()
    return {
        "number": number,
        "nonce": nonce,
        "purpose": purpose,
        **{name: me[name] for name in ("host", "machineId", "bootId", "pid", "startTick", "pidNamespace", "user")},
        "version": VERSION,
    }


def give_birth(store: RunStore, clock: Clock, run_id: str, start: dict[str, Any]) -> Journal:
    """Start a run: its journal is born with start, ACCEPT and START in one append.

    The payload `start` has its members `operationId` and `leg` in place; they are filled in.

    Raises:
        Refused: `run_id_conflict` when the id exists.
        Storage: the machine refused; there is no journal then.
    """
    nonce = new_nonce(clock)
    state = RunState(run_id)
    payload = {**start, "operationId": OPERATION_ID, "leg": owner_of_leg(store, 1, nonce, "run")}
    ids = iter(range(1, 1 << 30))
    at = format_ms(clock.now_ms())
    composed = compose(
        state,
        [Draft("start", payload), Move("ACCEPT"), Move("START")],
        at=at,
        new_id=lambda: f"{nonce}-{next(ids)}",
        size_bytes=0,
    )
    try:
        writer = store.create(run_id, composed.batch)
    except BaseException:
        # It may stand there all the same, whole; then it is known that this process has ended it.
        _ended_here.add(nonce)
        raise
    state.merge(composed.state)
    return Journal(state, writer, clock, nonce, used=next(ids) - 1, untold=composed.batch.records)


class Reopened:
    """A run opened for writing, before this leg's first append: what was read, and by what right it is taken.

    Nothing may be decided before `begin` has returned.
    """

    def __init__(self, store: RunStore, clock: Clock, writer: RunWriter, purpose: Purpose) -> None:
        self.store = store
        self.clock = clock
        self.writer = writer
        self.purpose: Purpose = purpose
        reading = writer.read()
        self.state = fold(reading, writer.run_id)
        self.tail: Tail = reading.tail
        self.proofs: tuple[Proof, ...] = ()
        self.standing: list[dict[str, Any]] = []

    def take_over(self, takeover: Takeover, unlock: Unlock | None = None) -> None:
        """Establish that nobody else writes this run.

        Raises:
            Refused: `foreign_run` when another program began the journal.
            Held: `takeover_refused` when the owner is provably gone but nobody said that this may be acted on;
                `owner_not_proven` when it cannot be told.
        """
        check_ours(self.state)
        leg = self.state.unclosed_leg
        if leg is None:
            return
        self.proofs = self._prove(leg)
        proven = all(proof.answer == "yes" for proof in self.proofs)
        if unlock is not None and unlock.nonce == leg.nonce:
            self.standing = [{"proof": "person", "answer": "yes", "fact": unlock.reason, "by": unlock.by}]
        elif not proven:
            raise _not_proven(self.state.run_id, leg, self.proofs, lost=self.purpose == "repair")
        elif takeover == "refuse":
            raise _takeover_refused(self.state.run_id, leg, self.proofs)
        elif takeover == "proven":
            self.standing = [{"proof": "standing_order", "answer": "yes", "fact": "takeover=proven"}]

    def _prove(self, leg: Leg) -> tuple[Proof, ...]:
        if leg.nonce in _ended_here:
            return (Proof("kernel_lock", "yes"), Proof("ended_here", "yes", f"this process ended leg {leg.number}"))
        return self.writer.prove(leg.owner)

    def begin(
        self, *, plan: ResumePlan | None = None, waiver: Waiver | None = None, then: Sequence[Saying] = (),
        limits: dict[str, Any] | None = None, beside: Mapping[str, Any] = {},
    ) -> Journal:  # fmt: skip
        """Mend the end and append this leg's first append: the `resume` record, and what follows from it at once.

        `limits` are recorded where they are not those that were in force; `beside` are members more.
        """
        state, writer = self.state, self.writer
        repaired = writer.repair(self.tail, state.sequence + 1)
        writer.adopt(state.sequence, state.chain)
        nonce = new_nonce(self.clock)
        journal = Journal(state, writer, self.clock, nonce)
        if self.purpose != "resume":
            # A person's act has no agent whose caller would be told.
            journal.watch(listener())
        at = format_ms(self.clock.now_ms())
        payload: dict[str, Any] = {
            "completedStepIds": state.completed_steps(),
            "resumedAt": at,
            "leg": owner_of_leg(self.store, len(state.legs) + 1, nonce, self.purpose),
        }
        payload |= beside
        if self.proofs:
            payload["lockProof"] = [msgspec.to_builtins(proof) for proof in self.proofs] + self.standing
        if repaired:
            payload["tailRepaired"] = _repair_record(repaired)
        if limits is not None:
            payload["limits"] = limits
        if plan is not None:
            payload["plan"] = plan.recorded()
        if waiver is not None:
            payload["integrityWaived"] = msgspec.to_builtins(waiver)
        try:
            journal.append([Draft("resume", payload), *then])
        except BaseException:
            # It may stand on the disk all the same; then it is known that this process has ended it.
            end_leg(journal)
            raise
        return journal


def _repair_record(pieces: Sequence[TailRepaired]) -> dict[str, Any]:
    first, *earlier = [msgspec.to_builtins(piece) for piece in pieces]
    return {**first, "earlier": earlier} if earlier else first


def end_leg(journal: Journal) -> None:
    """Let the journal go; a leg that stays open is known to have been ended by this process."""
    leg = journal.state.leg
    if leg is None or leg.nonce != journal.nonce or not leg.closed:
        _ended_here.add(journal.nonce)
    journal.close()
    journal.fault = journal.fault or Stop("the leg has ended")


def close_quietly(journal: Journal) -> None:
    """Record the end of a leg that neither paused nor finished the run."""
    leg = journal.state.unclosed_leg
    if leg is not None:
        journal.append([leg_ended(leg.number)])


def unfinished_business(state: RunState) -> list[Saying]:
    """What belongs behind an `agent_end`, COMPLETE, FAIL or REQUEST_ABORT of ours that a death cut off."""
    if state.finish is not None or not state.own:
        return []
    if state.state == "completed" or (state.agent_end is not None and state.state == "running"):
        move: list[Saying] = [] if state.ended else [Move("COMPLETE")]
        return [*move, Close("finish", Outcome("succeeded", "completed"))]
    if state.state == "aborting":
        return fail_sayings("aborted")
    if state.state == "failed":
        return [Close("finish", _failed(state.operation.reason or "failed" if state.operation else "failed"))]
    return []


def fail_sayings(reason: str, alive: Mapping[str, str] | None = None) -> list[Saying]:
    """The end of a run that failed or was aborted; `alive` are the attempts that could not be stopped, in words."""
    if not alive:
        return [Move("FAIL", reason), Close("finish", _failed(reason))]
    message = "; ".join(["not all could be stopped", *(f"{mark}: {words}" for mark, words in alive.items())])
    error = {"code": "process_alive", "message": message}
    late = quiescence_timeout(round(PATIENCE_S * 1000))
    return [event_error(message, fatal=False), late, Move("FAIL", reason), Close("finish", _failed(reason, error))]


def unspoken(state: RunState) -> list[Event]:
    """What is recorded of commands that were accepted when a run ends before anybody came to them."""
    return [
        control(name, known["fingerprint"], "rejected", reason="the run ended before it was come to")
        for name, known in state.controls.items()
        if known["state"] == "accepted" and "readBy" not in known
    ]


def _failed(reason: str, error: dict[str, Any] | None = None) -> Outcome:
    return Outcome("aborted" if reason == "aborted" else "failed", reason, error)


def _takeover_refused(run_id: str, leg: Leg, proofs: Sequence[Proof]) -> Held:
    return Held(
        f"run {run_id!r} was left open by pid {leg.owner['pid']} on {leg.owner['host']}, which is gone",
        code="takeover_refused",
        next=f"Run `clew resume {run_id}`, or open the home with clew.Home(takeover='proven') as a standing order.",
        run=run_id,
        owner=leg.owner,
        proofs=[msgspec.to_builtins(proof) for proof in proofs],
    )


def _not_proven(run_id: str, leg: Leg, proofs: Sequence[Proof], *, lost: bool) -> Held:
    # A journal that lost its end cannot be unlocked; the same word of a person is said with the loss.
    deed = f"verify {run_id} --accept-loss" if lost else f"unlock {run_id}"
    doubts = [
        f"{proof.proof}: {proof.answer}" + (f" ({proof.fact})" if proof.fact else "")
        for proof in proofs
        if proof.answer != "yes"
    ]
    return Held(
        f"run {run_id!r} was left open by pid {leg.owner['pid']} on {leg.owner['host']}; "
        f"that it is gone is not proven: {'; '.join(doubts)}",
        code="owner_not_proven",
        next=f"Make sure by yourself that it is gone, then `clew {deed} --nonce {leg.nonce} --by NAME --reason TEXT`.",
        run=run_id,
        nonce=leg.nonce,
        owner=leg.owner,
        proofs=[msgspec.to_builtins(proof) for proof in proofs],
    )
