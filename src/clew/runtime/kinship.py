"""One run's children in its journal: admitted, born or adopted, and what is said of how they stopped. Lives no leg.

What a death leaves, and what the next leg of the parent does (each row is a test):

| the parent's journal | the child's journal | next time |
|---|---|---|
| nothing | none | the child is delegated as if for the first time |
| `delegation_recorded` | none | it is born now, under the recorded id |
| `delegation_recorded` or `child_created` | born, its agent never called | it is adopted: it goes on by its own plan |
| `child_running` | anything | `child_orphaned`, then adopted; one that runs elsewhere is held and named |
| `child_running` | ended | its recorded end is read; its agent is not called |
| `child_terminal` | ended | its recorded end is read again, and told |
| `child_terminal`, the answer | ended | the answer is replayed, `parent_joined` written behind it |
"""

import base64
import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from clew.core import delegation
from clew.core.answers import Answer, ErrorAnswer, inline, json_text
from clew.core.budget import RunBudget
from clew.core.carving import spent_by, spent_fact
from clew.core.compose import Saying
from clew.core.delegation import ACTIVE, DEPTH, DESCENDANTS, DelegationState
from clew.core.ids import check_id, same_id
from clew.core.needs import Closing
from clew.core.outcome import Outcome, effect_row, outcome_now
from clew.core.records import Draft, Payload
from clew.core.state import RunState
from clew.core.times import format_ms
from clew.errors import ClewError, Held, NotFound, ToolError
from clew.runtime.childfaults import conflict, identity, lost, taken, too_many
from clew.runtime.gate import Gate
from clew.runtime.heirs import Heir
from clew.runtime.nursery import Wish
from clew.runtime.opening import HomeParts, Opening, Wanted, as_recorded, input_fingerprint, reopen_run, start_run
from clew.runtime.purse import Purse
from clew.runtime.reader import Reader
from clew.runtime.turns import step_events


class Errand(msgspec.Struct):
    """One child on its way: who it is, what it is asked, how long it is waited for. `grown`: its last known state."""

    step: str
    child_id: str
    agent: Heir
    prompt: Any
    fingerprint: str
    asked: RunBudget
    timeout_s: float | None = None
    grown: RunState | None = None


class Tree:
    """How many runs there are below the run at the top of this process's tree; shared by all of them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.lock = threading.Lock()


class Kinship:
    """The children of one run, for one leg: the part that decides and blocks.

    Source:
        DESIGN promises 1, 2, 8 and 12; contract #245 to #247, §2.10.
    """

    def __init__(self, place: HomeParts, gate: Gate, tree: Tree) -> None:
        self.place = place
        self.gate = gate
        self.journal = gate.journal
        self.tree = tree
        self.reader = Reader(place.store, place.blobs, place.clock)
        self.purse = Purse(gate)
        self._coming: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def state(self) -> RunState:
        """The parent, as far as it is durable."""
        return self.journal.state

    @property
    def run_id(self) -> str:
        """The parent."""
        return self.state.run_id

    @property
    def depth(self) -> int:
        """How many runs stand above this one."""
        parent = self.state.start.get("parent")
        return int(parent["depth"]) if type(parent) is dict else 0

    # Who comes.

    def errand(self, step: str, wish: Wish) -> Errand:
        """A child as it was asked for, held against what is recorded of this step.

        Raises:
            Refused: `delegation_conflict` when another one is recorded here; the gate has closed.
            UsageError: `value_not_json`, `invalid_run_id`.
        """
        agent = Heir(wish.agent, self.gate.agent)
        prompt = as_recorded(agent, wish.input)
        child_id = self._made_id(step) if wish.run_id is None else check_id(wish.run_id)
        asked = input_fingerprint(prompt)
        found = Errand(step, child_id, agent, prompt, asked, wish.budget or self._no_limits(), wish.timeout_s)
        known = self.state.delegations.get(step)
        if known is None:
            return found
        if wish.run_id is None:
            found.child_id = known.child_id
        same = (known.child_id, known.fingerprint, known.agent) == (found.child_id, asked, agent.name)
        if not same:
            fault = conflict(self.run_id, step, known)
            self.gate.close(Closing("delegation_conflict", fault.message))
            raise fault
        if wish.budget is None:
            found.asked = RunBudget.from_json(known.asked)
        return found

    def _no_limits(self) -> RunBudget:
        """None of its own, and what it does of turns that nobody measured is what its parent does."""
        return RunBudget(on_unmeasured=self.gate.budget.on_unmeasured)

    def _made_id(self, step: str) -> str:
        """The same for every replay of this run, another one for another run of the same name."""
        seed = f"clew-child-1:{self.run_id}:{self.state.legs[0].nonce}:{step}"
        return base64.b32encode(hashlib.sha256(seed.encode()).digest()[:10]).decode().lower() + "-child"

    @contextmanager
    def counted(self, errand: Errand) -> Iterator[None]:
        """The child takes one of the places while it is active.

        Raises:
            Refused: `child_run_concurrency_limit`, `child_run_depth_limit`, `child_run_total_limit`,
                `delegation_conflict` when its id is another child's, `child_run_identity_mismatch` another run's.
        """
        new = errand.step not in self.state.delegations
        with self._lock:
            if new:
                self._check_new(errand)
            if len(self._coming) >= ACTIVE:
                raise too_many("child_run_concurrency_limit", self.run_id, f"{ACTIVE} children are active", ACTIVE)
            self._coming[errand.step] = errand.child_id
        try:
            yield
        finally:
            with self._lock:
                del self._coming[errand.step]
            self.purse.settle(errand.step)

    def _check_new(self, errand: Errand) -> None:
        ids = {known.child_id: known.step_id for known in self.state.delegations.values()}
        ids |= {child_id: step for step, child_id in self._coming.items()} | {self.run_id: "itself"}
        step = next((step for child_id, step in ids.items() if same_id(child_id, errand.child_id)), None)
        if step is not None:
            raise taken(self.run_id, errand.child_id, step)
        if self.depth >= DEPTH:
            raise too_many("child_run_depth_limit", self.run_id, f"it stands {DEPTH} runs below the top", DEPTH)
        if any(same_id(errand.child_id, known) for known in self.place.store.ids()):
            raise identity(errand.child_id, errand.step, "it is another run's id")
        with self.tree.lock:
            if self.tree.count >= DESCENDANTS:
                raise too_many("child_run_total_limit", self.run_id, f"{DESCENDANTS} runs descend", DESCENDANTS)
            self.gate.begin_step()
            self.tree.count += 1

    def intent(self, errand: Errand) -> Draft:
        """The record before the birth."""
        fact = delegation.recorded(
            run_id=self.run_id,
            step_id=errand.step,
            child_id=errand.child_id,
            turn_id=f"turn-{self.state.metrics.turns}",
            fingerprint=errand.fingerprint,
            agent=errand.agent.name,
            depth=self.depth + 1,
            workspace=str(self.state.start.get("workspace", ".")),
            policies=errand.agent.policies,
            allocation=errand.asked.as_json(),
            tools=sorted(errand.agent.tools),
            at=format_ms(self.journal.clock.now_ms()),
        )
        return Draft("delegation", fact)

    # Birth and adoption.

    def open(self, errand: Errand) -> Opening | Closing:
        """Its next leg, begun; or its state with nothing to run; or why the parent cannot go on. Blocking."""
        try:
            return self._open(errand)
        except Held as fault:
            return Closing("child_held", _of(errand, fault))
        except ClewError as fault:
            return Closing("child_run_unavailable", _of(errand, fault))

    def _open(self, errand: Errand) -> Opening:
        known = self.state.delegations[errand.step]
        try:
            before = self.reader.see(errand.child_id).state
        except NotFound:
            if known.born:
                raise lost(errand.child_id) from None
            return self._bear(errand)
        self._recognise(errand, before)
        if before.finish is not None:
            return Opening(before)
        wanted = Wanted(budget=self.purse.grant(errand.step, errand.asked, before))
        return reopen_run(self.place, errand.agent, errand.child_id, wanted)

    def _bear(self, errand: Errand) -> Opening:
        granted = self.purse.grant(errand.step, errand.asked, None)
        parent = {**self._mine(errand), "depth": self.depth + 1, "policies": list(errand.agent.policies)}
        return start_run(
            self.place, errand.agent, errand.prompt, run_id=errand.child_id, budget=granted, parent=parent
        )  # fmt: skip

    def _mine(self, errand: Errand) -> dict[str, Any]:
        """What a child's start says of its parent, so that both journals name each other."""
        return {"runId": self.run_id, "stepId": errand.step, "nonce": self.state.legs[0].nonce}

    def _recognise(self, errand: Errand, child: RunState) -> None:
        parent = child.start.get("parent")
        said = parent if child.own and type(parent) is dict else {}
        if any(said.get(name) != value for name, value in self._mine(errand).items()):
            raise identity(errand.child_id, errand.step, "its journal names another parent")
        if child.start.get("input") != errand.fingerprint:
            raise identity(errand.child_id, errand.step, "its journal has another input")

    # How it stopped.

    def parting(self, errand: Errand, child: RunState) -> list[Saying]:
        """What the parent's journal says of a child whose leg is over. Blocking, where its output is long."""
        known = self.state.delegations[errand.step]
        said: list[Saying] = []
        if not known.born:
            said.append(Draft("delegation", delegation.created(self.run_id, known)))
        if child.finish is not None:
            return [*said, *self._ended(errand, known, child)]
        if child.state == "paused" and child.unclosed_leg is None:
            return [*said, self._paused(errand, known, child)]
        self.gate.close(Closing("child_run_unavailable", f"child {errand.child_id} did not record how it stopped"))
        return said

    def _ended(self, errand: Errand, known: DelegationState, child: RunState) -> list[Saying]:
        result, told = _result(child), delegation.terminal
        reason, spent, below = outcome_now(child).finish_reason, spent_fact(spent_by(child)), self.descendants(child)
        end = told(self.run_id, known, reason=reason, spent=spent, descendants=below, result=result)
        said: list[Saying] = [] if known.status == "terminal" else [Draft("delegation", end)]
        answer = self._answer(errand, child, reason)
        if not answer:
            return said
        return [*said, *answer, Draft("delegation", delegation.joined(self.run_id, known, result))]

    def _answer(self, errand: Errand, child: RunState, reason: str) -> list[Payload]:
        """What the agent is told: the output, or an error that names the child. None when it could not be kept."""
        if child.state == "completed":
            return step_events(self.gate, errand.step, (child.agent_end or {}).get("output"))
        kind = "child_aborted" if reason == "aborted" else "child_failed"
        value = {"runId": errand.child_id, "reason": reason}
        error = ErrorAnswer(kind, f"child {errand.child_id} ({errand.agent.name}) ended: {reason}", value)
        return [inline(errand.step, Answer(value, error), json_text(value))]

    def _paused(self, errand: Errand, known: DelegationState, child: RunState) -> Draft:
        outcome = outcome_now(child)
        waiting = delegation.waited_for(child.delegations) if outcome.finish_reason == "child_paused" else None
        waiting = waiting or _waits(child.run_id, outcome)
        at = "" if waiting["runId"] == child.run_id else f", for {waiting['runId']}: {waiting['reason']}"
        self.gate.close(Closing("child_paused", f"child {child.run_id} is paused: {outcome.finish_reason}{at}"))
        fact = delegation.paused(
            self.run_id, known, reason=outcome.finish_reason, waiting=waiting, spent=spent_fact(spent_by(child)),
            descendants=self.descendants(child), result=_result(child),
        )  # fmt: skip
        return Draft("delegation", fact)

    def descendants(self, state: RunState) -> int:
        """How many runs there are below a run, as far as their journals can be read."""
        count = 0
        for known in state.delegations.values():
            try:
                count += 1 + self.descendants(self.reader.see(known.child_id).state)
            except ClewError:
                count += 1
        return count

    # What the agent hears.

    def unheard(self, errand: Errand) -> list[Draft] | None:
        """What belongs behind a recorded answer that a death cut off; None when there is no answer yet."""
        if self.state.steps.get(errand.step) is None:
            return None
        known = self.state.delegations[errand.step]
        if known.status == "joined":
            return []
        return [Draft("delegation", delegation.joined(self.run_id, known, delegation.result_of(known.outcome)))]

    def told(self, errand: Errand) -> Any:
        """The answer by its record, the same way live and replayed.

        Raises:
            ToolError: it is an error. Stop: there is none, and the gate has closed.
        """
        ref = self.state.steps.get(errand.step)
        if ref is None:
            self.gate.check_open()
            raise AssertionError("a child that stopped without an answer has closed its parent's gate")
        answer = self.gate.read_answer(ref)
        if answer.error is None:
            return answer.value
        raise ToolError(
            answer.error.message,
            code="child_run_failed",
            next=f"Look at it with `clew show {errand.child_id}`; this answer is recorded and will be replayed.",
            kind=answer.error.kind,
            child=errand.child_id,
            value=answer.error.value,
        )


def _result(child: RunState) -> Payload:
    """What is known of a child's work: where its journal ends is the evidence."""
    outcome = {"failed": "aborted"}.get(child.state, "") if outcome_now(child).finish_reason == "aborted" else ""
    calls = child.calls.values()
    changes = [
        {"stepId": call.step_id, "tool": call.tool}
        for call in calls
        if call.status == "committed" and call.capability is not None and call.capability.effect == "workspace"
    ]
    return delegation.result_of(
        outcome or child.state,
        evidence=[{"kind": "journal", "runId": child.run_id, "sequence": child.sequence, "chain": child.chain}],
        changes=changes,
        risks=[effect_row(call) for call in child.unsettled()],
    )


def _waits(run_id: str, outcome: Outcome) -> Payload:
    """The run at the bottom and its reason; of a limit also which one, for who lifts it must know."""
    message = (outcome.error or {}).get("message")
    limit = {"message": message} if outcome.finish_reason == "budget_exceeded" and message else {}
    return {"runId": run_id, "reason": outcome.finish_reason, **limit}


def _of(errand: Errand, fault: ClewError) -> str:
    return f"child {errand.child_id}: {fault.message} [{fault.code}]; {fault.next}"
