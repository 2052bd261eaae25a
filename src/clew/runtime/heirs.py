"""A child's agent under what its parent's author declared: a policy can only narrow on the way down. Runs nothing."""

from collections.abc import Callable
from typing import Any

from clew.core.resume import Fingerprint
from clew.core.state import RunState
from clew.errors import Refused
from clew.runtime.tools import Agent, Call

Policy = Callable[[Call], Any]


class Heir(Agent):
    """An agent as a child runs it: its own policy and its parent's are asked, secrets of both are hidden.

    It stays who it is: its fingerprint is that of the declared agent. `policies` are the names of what it inherited.
    """

    def __init__(self, declared: Agent, parent: Agent) -> None:
        super().__init__(
            declared.body,
            tools=list(declared.tools.values()),
            name=declared.name,
            config=declared.config,
            policy=_both(parent.policy, declared.policy),
            secrets=(*declared.secrets, *parent.secrets),
        )
        self.declared = declared
        self.policies = policies_of(parent)

    def fingerprint(self) -> Fingerprint:
        """What its author declared; what it inherited stands in the start record's `parent`."""
        return self.declared.fingerprint()


def policies_of(agent: Agent) -> tuple[str, ...]:
    """The names of all policies that its calls must pass, the farthest ancestor's first."""
    declared = agent.declared if isinstance(agent, Heir) else agent
    own = () if declared.policy is None else (name_of(declared.policy),)
    return (*(agent.policies if isinstance(agent, Heir) else ()), *own)


def name_of(policy: Policy) -> str:
    """A policy's name, as a fingerprint has it."""
    return str(getattr(policy, "__name__", type(policy).__name__))


def _both(first: Policy | None, second: Policy | None) -> Policy | None:
    """Both are asked, the ancestor's first; what either of them says other than yes stands."""
    if first is None or second is None:
        return first or second

    def asked(call: Call) -> Any:
        said = first(call)
        return second(call) if said is None else said

    return asked


def check_inherited(state: RunState, agent: Agent) -> None:
    """A child goes on only under the policies that it was born under.

    Raises:
        Refused: `child_run_policy_escalation` when one of them is not there.

    Source:
        contract #246.
    """
    parent = state.start.get("parent")
    if type(parent) is not dict:
        return
    offered = agent.policies if isinstance(agent, Heir) else ()
    lacking = [name for name in parent.get("policies", ()) if name not in offered]
    if lacking:
        raise Refused(
            f"run {state.run_id!r} was delegated under its parent's policy {lacking[0]!r}, which is not asked here",
            code="child_run_policy_escalation",
            next=f"Resume its parent, which takes it along: clew resume {parent.get('runId')}.",
            run=state.run_id,
            parent=parent.get("runId"),
            policies=lacking,
        )
