"""How a stopped run may go on: DESIGN §5's table, from what is known to a plan. Reads and writes nothing."""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from clew.core import approvals
from clew.core.calls import AnswerRef, CallState
from clew.core.canon import fingerprint
from clew.core.capability import Capability, stricter
from clew.core.delegation import unjoined
from clew.core.guarding import built_in
from clew.core.loops import is_exhausted, last_loop
from clew.core.restored import unfinished
from clew.core.state import ApprovalState, RunState
from clew.errors import Corrupt, NotFound, Refused

Decision = Literal["skip", "run", "rerun", "probe", "review", "wait", "fail"]


class Fingerprint(msgspec.Struct, frozen=True):
    """What the user declared, as SHA-256 a part (64 hex digits each): agent name, `config={…}`, policy."""

    agent: str
    config: str
    policy: str

    def parts(self) -> dict[str, str]:
        """The member `configParts` of a start record."""
        return {"agent": self.agent, "config": self.config, "policy": self.policy}

    def whole(self) -> str:
        """The member `configFingerprint`."""
        return fingerprint(self.parts())

    def changed_since(self, state: RunState) -> list[str]:
        """The parts that differ from what the run was started with, or from what a person accepted last."""
        recorded = state.accepted_parts or state.start.get("configParts")
        recorded = recorded if type(recorded) is dict else {}
        return [name for name, digest in self.parts().items() if recorded.get(name) != digest]


class Offered(msgspec.Struct, frozen=True):
    """A tool as it is offered now: today's capability, and what could settle an open attempt of it."""

    capability: Capability
    probe: str = ""
    in_doubt_s: float = 0.0
    window_s: float | None = None


class Facts(msgspec.Struct, frozen=True):
    """What the plan must know beyond the journal; the runtime looks, the plan decides.

    Attributes:
        at_ms: Now, milliseconds since 1970.
        tools: Tools offered, by name.
        unreadable_blobs: Digests of answers that are missing or differ.
        living: Keys of attempts of which a process still lives, with its description.
        accept_config: A recorded waiver of a changed configuration stands.
        input: The input that was asked for now, or UNSET when none was given.
    """

    at_ms: int
    tools: Mapping[str, Offered] = {}
    unreadable_blobs: frozenset[str] = frozenset()
    living: Mapping[str, str] = {}
    accept_config: bool = False
    input: Any = msgspec.UNSET


class Step(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What the plan says of one step, turn or call, and why."""

    step_id: str
    decision: Decision
    reason: str
    call_id: str = ""
    attempt: int = 0
    detail: str = ""


class ResumePlan(msgspec.Struct, frozen=True, rename="camel"):
    """One decision for every step, turn and call of a run, in the order of the journal. Touches nothing.

    `sequence` and `chain` say for which end of the journal it holds; `loop` is the last loop snapshot, if there is one.
    """

    run_id: str
    sequence: int
    chain: str
    steps: tuple[Step, ...]
    loop: dict[str, Any] | None = None

    @property
    def blocked(self) -> tuple[Step, ...]:
        """What the run waits for: reviews, living processes, approvals."""
        return tuple(step for step in self.steps if step.decision in ("review", "wait"))

    @property
    def probes(self) -> tuple[Step, ...]:
        """What a probe is to be asked."""
        return tuple(step for step in self.steps if step.decision == "probe")

    @property
    def given_up(self) -> tuple[Step, ...]:
        """Effects that a person gave up: the run ends."""
        return tuple(step for step in self.steps if step.decision == "fail")

    def recorded(self) -> list[dict[str, Any]]:
        """The member `plan` of a `resume` record, as its examples have it; of what is skipped no attempt is told."""
        return [_recorded(step) for step in self.steps]


def _recorded(step: Step) -> dict[str, Any]:
    told = {"stepId": step.step_id, **({"callId": step.call_id} if step.call_id else {})}
    decided = {"decision": step.decision, "reason": step.reason}
    if step.decision == "skip":
        return {**told, **decided}
    left = {"attempt": step.attempt, "detail": step.detail}
    return {**told, **decided, **{name: value for name, value in left.items() if value}}


def prepare_run_resume(state: RunState, config: Fingerprint | None, facts: Facts) -> ResumePlan:
    """Decide how a stopped run may go on. Reads nothing, writes nothing.

    Args:
        state: The run as its journal tells it, sequence and chain already checked.
        config: The configuration about to run; None when only the calls are to be judged (`clew show`).
        facts: What was looked up for this decision.

    Returns:
        One decision for every step, turn and call, in the order of the journal.

    Raises:
        NotFound: `unknown_run` when there is no record.
        Refused: `run_already_finished` when the operation is completed or failed, or a foreign run's input is over.
        Refused: `foreign_run` when another program began the journal and a configuration is given.
        Refused: `restore_unfinished` when paths of it may be half put back and a configuration is given.
        Refused: `operation_not_resumable` when its loop is used up and a configuration is given.
        Refused: `resume_input_mismatch` when the input differs from the recorded one.
        Refused: `resume_config_mismatch` when a part differs; `facts["changed"]` names it.

    Source:
        DESIGN §5, promises 1, 2 and 4.
    """
    if state.sequence == 0:
        raise NotFound(
            f"run {state.run_id!r} has no record", code="unknown_run", next="See `clew ls` for the runs there are."
        )
    if state.ended or state.finish is not None or state.theirs.input_over:
        raise _finished(state)
    if config is not None:
        check_ours(state)
        _check_restore(state)
        _check_loop(state)
        _check_input(state, facts)
        _check_config(state, config, facts)
    placed = [(turn.position, _judge_answer(turn.turn_id, turn.answer, facts)) for turn in state.turns.values()]
    placed += [(answer.position, _judge_answer(name, answer, facts)) for name, answer in state.named_steps()]
    placed += [(call.position, _judge(state, call, facts)) for call in state.calls.values()]
    placed += [(position, step) for position, step in _asked_before_recorded(state, facts)]
    placed += [
        (child.position, Step(child.step_id, "run", "child_unfinished", detail=f"{child.child_id}: {child.status}"))
        for child in unjoined(state.delegations)
        if state.steps.get(child.step_id) is None
    ]
    placed.sort(key=lambda found: found[0])
    steps = tuple(step for _, step in placed)
    return ResumePlan(state.run_id, state.sequence, state.chain, steps, last_loop(state))


def is_resumable(state: RunState, facts: Facts) -> bool:
    """May a resume go on, waiting at most for an approval? The same judgement as the plan's, never an error."""
    try:
        plan = prepare_run_resume(state, None, facts)
    except (Refused, NotFound, Corrupt):
        return False
    stuck = [step for step in plan.blocked if step.reason != "approval_required"]
    waits = stuck or plan.given_up or is_exhausted(state) or state.restores.begun is not None
    return state.own and state.state == "paused" and not waits


def _judge_answer(step_id: str, answer: AnswerRef | None, facts: Facts) -> Step:
    """A turn or a step: it has its answer, it has none yet, or its answer's bytes are gone."""
    if answer is None:
        return Step(step_id, "run", "turn_without_answer")
    if answer.blob in facts.unreadable_blobs:
        return Step(step_id, "review", "result_missing", detail=f"blob {answer.blob}")
    return Step(step_id, "skip", "step_stable")


def _asked_before_recorded(state: RunState, facts: Facts) -> list[tuple[int, Step]]:
    """Approvals that matter while their call is not recorded yet: it is recorded with the decision, or the start."""
    found = [(asked, _by_approval(state, asked, facts)) for asked in approvals.unrecorded(state)]
    return [
        (asked.position, Step(asked.step_id, said[0], said[1], asked.call_id, 0, said[2]))
        for asked, said in found
        if said is not None
    ]


def _by_approval(state: RunState, asked: ApprovalState, facts: Facts) -> tuple[Decision, str, str] | None:
    """What an approval says of a call that has not started: wait for it, start with it, ask anew. None: nothing."""
    stands = approvals.standing(asked, facts.at_ms)
    if stands not in ("pending", "granted", "expired"):
        return None
    declared = state.start.get("tools") or ()
    if facts.tools and asked.tool in declared and asked.tool not in facts.tools:
        return "review", "approval_tool_missing", asked.tool
    if stands == "expired":
        return "run", "approval_expired", asked.approval_id
    return ("wait", "approval_required", asked.approval_id) if stands == "pending" else ("run", "approved", asked.by)


def with_approver(plan: ResumePlan) -> ResumePlan:
    """The plan of a leg in which a person can be asked: what waits for an approval is asked about, not waited for."""
    return msgspec.structs.replace(
        plan,
        steps=tuple(
            msgspec.structs.replace(step, decision="run") if step.reason == "approval_required" else step
            for step in plan.steps
        ),
    )


def judge_call(state: RunState, call: CallState, facts: Facts) -> tuple[Decision, str]:
    """What the table says of one call now, and why."""
    decision, reason, _, _ = _decide(state, call, facts)
    return decision, reason


def _judge(state: RunState, call: CallState, facts: Facts) -> Step:
    """One call, by the table: read top down, first match wins."""
    decision, reason, attempt, detail = _decide(state, call, facts)
    return Step(call.step_id, decision, reason, call.call_id, attempt, detail)


def _decide(state: RunState, call: CallState, facts: Facts) -> tuple[Decision, str, int, str]:
    if state.answers_call(call):
        if call.answer is not None and call.answer.blob in facts.unreadable_blobs:
            return "review", "result_missing", call.attempt, f"blob {call.answer.blob}"
        review = call.settled_by
        happened = review is not None and review.outcome == "happened"
        return "skip", "settled_happened" if happened else "step_stable", call.attempt, ""
    if call.status in ("", "not_started"):
        return _decide_unstarted(state, call, facts)
    review = call.settled_by
    if review is not None:
        said = _wanted_again(state, call, facts) if review.outcome == "did_not_happen" else None
        if said is not None:
            return said[0], said[1], call.attempt, said[2]
        return _BY_REVIEW[review.outcome][0], _BY_REVIEW[review.outcome][1], call.attempt, ""
    if call.status == "committed":
        reason = "secret_answer_lost" if call.persistence == "withheld" else "committed_effect_pending"
        return "review", reason, call.attempt, ""
    return _decide_open(state, call, facts)


_BY_REVIEW: Final[dict[str, tuple[Decision, str]]] = {
    "happened": ("skip", "settled_happened"),
    "did_not_happen": ("run", "settled_did_not_happen"),
    "give_up": ("fail", "effect_given_up"),
}


def _wanted_again(state: RunState, call: CallState, facts: Facts) -> tuple[Decision, str, str] | None:
    """What the last approval of a recorded call says of its next start."""
    asked = approvals.standing_of(state, call.step_id)
    if asked is None or (asked.key, asked.fingerprint) != (call.key, call.fingerprint):
        return None
    return _by_approval(state, asked, facts)


def _decide_unstarted(state: RunState, call: CallState, facts: Facts) -> tuple[Decision, str, int, str]:
    said = _wanted_again(state, call, facts)
    if said is not None:
        return said[0], said[1], 0, said[2]
    if not state.own and call.may_change_the_world:
        return "review", "unknown_effect", 0, "the leg was not ours"
    return "run", "not_started", 0, ""


def _decide_open(state: RunState, call: CallState, facts: Facts) -> tuple[Decision, str, int, str]:
    living = facts.living.get(f"{call.key}#{call.attempt}")
    if living is not None:
        return "wait", "process_alive", call.attempt, living
    offered = facts.tools.get(call.tool)
    if offered is not None and offered.probe:
        return "probe", "probe_declared", call.attempt, offered.probe
    stands = built_in(state, call)
    if stands is not None:
        return "probe", "checkpoint_stands", call.attempt, stands.checkpoint_id
    if offered is not None and _repeatable(call, offered, facts.at_ms):
        return "rerun", "idempotent", call.attempt, ""
    if offered is None:
        return "review", "tool_missing", call.attempt, call.tool
    return "review", "unknown_effect", call.attempt, ""


def _repeatable(call: CallState, offered: Offered, at_ms: int) -> bool:
    """Idempotent then and now, and inside the window in which the other side remembers the key."""
    if call.capability is None or stricter(call.capability, offered.capability).replay != "idempotent":
        return False
    if call.capability.effect != offered.capability.effect:
        return False
    if offered.window_s is None:
        return call.capability.effect == "workspace"
    since_ms = call.since_ms or call.started_ms
    return since_ms <= call.started_ms <= at_ms <= since_ms + offered.window_s * 1000


def check_ours(state: RunState) -> None:
    """Who began a journal continues it. `Refused` (`foreign_run`) when that was another program."""
    if not state.own:
        raise Refused(
            f"run {state.run_id!r} was begun by another program",
            code="foreign_run",
            next="Continue it with the program that began it; clew reads, verifies and shows it.",
            run=state.run_id,
        )


def _check_restore(state: RunState) -> None:
    """Files that are half put back say nothing of what happened, and are no place to go on; to be ended is one."""
    begun = state.restores.begun
    if begun is not None and state.state != "aborting":
        raise unfinished(state.run_id, begun)


def _check_input(state: RunState, facts: Facts) -> None:
    if facts.input is msgspec.UNSET or fingerprint(facts.input) == fingerprint(state.input):
        return
    raise Refused(
        f"run {state.run_id!r} was started with another input",
        code="resume_input_mismatch",
        next="Resume without an input, or start a new run under another id.",
        run=state.run_id,
    )


def _check_config(state: RunState, config: Fingerprint, facts: Facts) -> None:
    changed = config.changed_since(state)
    if not changed or facts.accept_config:
        return
    raise Refused(
        f"run {state.run_id!r} was started with another {' and '.join(changed)}",
        code="resume_config_mismatch",
        next="Resume with the recorded one, or accept the change with `--accept-config --by NAME --reason TEXT`.",
        run=state.run_id,
        changed=changed,
    )


def _check_loop(state: RunState) -> None:
    if is_exhausted(state):
        raise Refused(
            f"run {state.run_id!r} is paused because its loop is used up (loop_exhausted); it does not go on",
            code="operation_not_resumable",
            next=f"Look at it with `clew show {state.run_id}`, end it with `clew abort {state.run_id}`, "
            "and start a new run.",
            run=state.run_id,
            loop=last_loop(state),
        )


def _finished(state: RunState) -> Refused:
    how = f"is {state.state if state.ended else 'finished'}"
    if state.theirs.input_over:
        how = f"has had its input {state.theirs.input_over}"
    return Refused(
        f"run {state.run_id!r} {how}; it does not go on",
        code="run_already_finished",
        next=f"Look at it with `clew show {state.run_id}`; start a new run under another id.",
        run=state.run_id,
        state=state.state,
    )
