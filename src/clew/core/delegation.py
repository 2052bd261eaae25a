"""What a parent's journal says of its children: the facts of a delegation and their legal order. Runs no child.

A delegation goes `recorded` (intent, before the child exists), `created` (its journal stands), `running`, then `paused`
and `running` again as often as it takes, `terminal` (its recorded end was read), `joined` (the agent may hear of it).
`orphaned` is what a restart makes of a child that was not known to have stopped: whatever became of it stands in its
own journal, and nothing is done again before that was read.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from clew.core.budget import RunBudget
from clew.core.calls import Illegal
from clew.core.ids import same_id
from clew.errors import UsageError

Fact = dict[str, Any]
Status = Literal["recorded", "created", "running", "cancel_requested", "paused", "orphaned", "terminal", "joined"]

DEPTH: Final = 3
ACTIVE: Final = 4
DESCENDANTS: Final = 32
_LISTED: Final = 100

UNDER_WAY: Final = frozenset({"recorded", "created", "running", "cancel_requested"})
"""In these states a leg's death leaves an orphan."""

_STATUS: Final[dict[str, Status]] = {
    "delegation_recorded": "recorded", "child_created": "created", "child_running": "running",
    "child_cancel_requested": "cancel_requested", "child_paused": "paused", "child_orphaned": "orphaned",
    "child_terminal": "terminal", "parent_joined": "joined",
}  # fmt: skip
_BEFORE: Final[dict[str, frozenset[str]]] = {
    "created": frozenset({"recorded", "orphaned"}),
    "running": frozenset({"created", "paused", "orphaned"}),
    "cancel_requested": frozenset({"created", "running", "paused", "orphaned"}),
    "paused": frozenset({"created", "running", "cancel_requested", "paused", "orphaned"}),
    "orphaned": UNDER_WAY,
    "terminal": frozenset({"created", "running", "cancel_requested", "paused", "orphaned"}),
    "joined": frozenset({"terminal"}),
}
_WITH_RESULT: Final = frozenset({"paused", "orphaned", "terminal", "joined"})
_LISTS: Final = ("evidence", "artifacts", "workspaceChanges", "unresolvedRisks")
_TEXTS: Final = ("childRunId", "parentStepId", "inputFingerprint", "agent")


class DelegationState(msgspec.Struct, frozen=True, gc=False):
    """One child as its parent's journal knows it; the child's own journal may know more.

    Attributes:
        step_id: The parent's step that waits for it; `position` is where it was recorded.
        fingerprint: SHA-256 of the child's input.
        depth: 1 for a child of a run that nobody delegated.
        born: Was its journal known to stand?
        asked: The limits that were asked for it; `granted` are those it got last, `spent` what it had used when it
            last stopped (None: it never did), all by the members of a budget.
        outcome: How it last stopped; `reason` why, empty while it has not.
        waiting: The run at the bottom that waits, `{runId, reason}`, when it is paused.
    """

    step_id: str
    child_id: str
    fingerprint: str
    agent: str
    depth: int
    position: int
    status: Status = "recorded"
    born: bool = False
    asked: dict[str, Any] = {}
    granted: dict[str, Any] = {}
    spent: dict[str, Any] | None = None
    outcome: str = ""
    reason: str = ""
    waiting: dict[str, Any] | None = None


def delegation_id(run_id: str, step_id: str) -> str:
    """The name of the delegation of a step: `run:step`."""
    return f"{run_id}:{step_id}"


def recorded(
    *, run_id: str, step_id: str, child_id: str, turn_id: str, fingerprint: str, agent: str, depth: int,
    workspace: str, policies: Iterable[str], allocation: Fact, tools: Iterable[str], at: str,
) -> Fact:  # fmt: skip
    """The intent: this child is about to be born. What clew does not know is null."""
    return {
        "type": "delegation_recorded",
        "schemaVersion": 1,
        "delegationId": delegation_id(run_id, step_id),
        "parentRunId": run_id,
        "childRunId": child_id,
        "parentTurnId": turn_id,
        "parentStepId": step_id,
        "inputFingerprint": fingerprint,
        "agent": agent,
        "model": None,
        "workspace": workspace,
        "lifecyclePolicy": "pause_parent",
        "contextReferences": [],
        "inheritedPolicy": list(policies),
        "requestedAllocation": allocation,
        "permissions": list(tools),
        "environment": None,
        "depth": depth,
        "time": at,
    }


def _said(kind: str, run_id: str, known: DelegationState, **members: Any) -> Fact:
    named = {"delegationId": delegation_id(run_id, known.step_id), "childRunId": known.child_id}
    return {"type": kind, "schemaVersion": 1, **named, **members}


def created(run_id: str, known: DelegationState) -> Fact:
    """The child's journal stands."""
    return _said("child_created", run_id, known)


def running(run_id: str, known: DelegationState, allocation: Fact) -> Fact:
    """The child's agent is about to be called, under these limits."""
    return _said("child_running", run_id, known, allocation=allocation)


def cancel_requested(run_id: str, known: DelegationState, *, by: str, reason: str) -> Fact:
    """The child was told to end."""
    return _said("child_cancel_requested", run_id, known, requestedBy=by, reason=reason)


def paused(
    run_id: str, known: DelegationState, *, reason: str, waiting: Fact, spent: Fact, descendants: int, result: Fact
) -> Fact:
    """The child waits, and its parent with it."""
    stopped = {"reason": reason, "waiting": waiting, "spent": spent, "descendants": descendants}
    return _said("child_paused", run_id, known, **stopped, result=result)


def terminal(run_id: str, known: DelegationState, *, reason: str, spent: Fact, descendants: int, result: Fact) -> Fact:
    """The child's recorded end was read."""
    return _said(
        "child_terminal", run_id, known, reason=reason, spent=spent, descendants=descendants, result=result
    )  # fmt: skip


def orphaned(run_id: str, known: DelegationState) -> Fact:
    """The parent's leg died while the child was under way: what became of it stands in its own journal."""
    risk = f"run {known.child_id} was under way when its parent's process ended"
    return _said("child_orphaned", run_id, known, result=result_of("unknown", risks=[risk]))


def joined(run_id: str, known: DelegationState, result: Fact) -> Fact:
    """The agent may hear how the child ended; its answer stands before this in the same append."""
    return _said("parent_joined", run_id, known, result=result)


def result_of(
    outcome: str, *, evidence: Iterable[Any] = (), changes: Iterable[Any] = (), risks: Iterable[Any] = ()
) -> Fact:
    """The member `result`: each list holds what is known, up to 100 entries."""
    return {
        "outcome": outcome,
        "evidence": list(evidence)[:_LISTED],
        "artifacts": [],
        "workspaceChanges": list(changes)[:_LISTED],
        "unresolvedRisks": list(risks)[:_LISTED],
    }


def status_of(fact: Fact) -> Status:
    """What a fact makes of its delegation.

    Raises:
        Illegal: it is of no type that clew knows.
    """
    kind = fact.get("type")
    status = _STATUS.get(kind) if type(kind) is str else None
    if status is None:
        raise Illegal(f"a delegation fact of type {kind!r} is not known; a newer clew may have written it")
    return status


def step_of(fact: Fact, run_id: str) -> str:
    """The parent's step that a fact is about, from its delegation id.

    Raises:
        Illegal: it is of another run.
    """
    name = fact.get("delegationId")
    run, _, step = name.partition(":") if type(name) is str else ("", "", "")
    if run != run_id or not step:
        raise Illegal(f"delegation {name!r} is not of this run")
    return step


def begun(fact: Fact, run_id: str, step_id: str, position: int, others: Iterable[DelegationState]) -> DelegationState:
    """The delegation that a `delegation_recorded` begins.

    Raises:
        Illegal: a member is missing, or the child is another delegation's.
    """
    said = {name: fact.get(name) for name in _TEXTS}
    missing = next((name for name, text in said.items() if type(text) is not str or not text), None)
    if missing is not None:
        raise Illegal(f"delegation_recorded has no {missing}")
    if fact.get("parentRunId") != run_id or said["parentStepId"] != step_id:
        raise Illegal(f"the delegation of step {step_id!r} names another parent")
    child, depth, asked = str(said["childRunId"]), fact.get("depth"), fact.get("requestedAllocation")
    if type(depth) is not int or not 1 <= depth <= DEPTH or type(asked) is not dict:
        raise Illegal(f"the delegation of step {step_id!r} has no depth or no allocation")
    if same_id(child, run_id) or any(same_id(child, other.child_id) for other in others):
        raise Illegal(f"child {child!r} is taken")
    return DelegationState(
        step_id, child, str(said["inputFingerprint"]), str(said["agent"]), depth, position, asked=_limits(fact, asked)
    )  # fmt: skip


def moved(known: DelegationState | None, fact: Fact, status: Status) -> DelegationState:
    """The delegation after a later fact.

    Raises:
        Illegal: it was never recorded, is of another child, comes in a wrong order, or lacks a member.
    """
    if known is None or fact.get("childRunId") != known.child_id:
        raise Illegal(f"{fact['type']} of child {fact.get('childRunId')!r} without its delegation")
    if known.status not in _BEFORE.get(status, frozenset()):
        raise Illegal(f"{fact['type']} of child {known.child_id!r}, which is {known.status}")
    outcome = _outcome(fact) if status in _WITH_RESULT else known.outcome
    told: dict[str, Any] = {"status": status, "outcome": outcome, "born": known.born or status != "orphaned"}
    if status == "running":
        told["granted"] = _limits(fact, _member(fact, "allocation", dict))
    if status == "cancel_requested":
        _member(fact, "requestedBy", str)
    if status in ("paused", "terminal"):
        told["spent"], told["reason"] = _amounts(fact), _member(fact, "reason", str)
        told["waiting"] = _member(fact, "waiting", dict) if status == "paused" else None
    return msgspec.structs.replace(known, **told)


def _member(fact: Fact, name: str, kind: type) -> Any:
    value = fact.get(name)
    if type(value) is not kind:
        raise Illegal(f"{fact['type']} of child {fact['childRunId']!r} has no {name}")
    return value


def _limits(fact: Fact, told: Fact) -> Fact:
    """Limits as this version knows them: unread ones would be kept by nobody."""
    try:
        return RunBudget.from_json(told).as_json()
    except UsageError as fault:
        raise Illegal(f"{fact['type']} of child {fact.get('childRunId')!r}: {fault.message}") from None


def _amounts(fact: Fact) -> Fact:
    spent = _member(fact, "spent", dict)
    wrong = next((name for name, amount in spent.items() if type(amount) is not int or amount < 0), None)
    if wrong is not None:
        raise Illegal(f"{fact['type']} of child {fact['childRunId']!r} has used {spent[wrong]!r} of {wrong}")
    return dict(spent)


def _outcome(fact: Fact) -> str:
    result = _member(fact, "result", dict)
    if type(result.get("outcome")) is not str or any(type(result.get(name)) is not list for name in _LISTS):
        raise Illegal(f"{fact['type']} of child {fact['childRunId']!r} has no whole result")
    return str(result["outcome"])


def unjoined(delegations: Mapping[str, DelegationState]) -> list[DelegationState]:
    """Children whose end the agent was not told, in the order of the journal."""
    return [known for known in delegations.values() if known.status != "joined"]


def waited_for(delegations: Mapping[str, DelegationState]) -> dict[str, Any] | None:
    """The run at the bottom that a parent waits for, `{runId, reason}`; None when no child is paused."""
    return next((known.waiting for known in unjoined(delegations) if known.status == "paused"), None)
