"""A child's agent under what its parent's author declared: a policy can only narrow on the way down. Runs nothing."""

from typing import Any

from clew.core.resume import Fingerprint
from clew.core.state import RunState
from clew.errors import Refused
from clew.runtime.tools import Agent


class Heir(Agent):
    """An agent as a child runs it: its own policy and its ancestors' are asked, and the strictest word holds.

    The secrets of both are hidden. What a model proposes to it is asked about where it has no policy of its own, as
    without a parent: an ancestor's yes allows nothing that would not be allowed without it.

    It stays who it is: its fingerprint is that of the declared agent. `policies` are the names of what it inherited.
    """

    def __init__(self, declared: Agent, parent: Agent) -> None:
        super().__init__(
            declared.body,
            tools=list(declared.tools.values()),
            name=declared.name,
            config=declared.config,
            policy=declared.policy,
            secrets=(*declared.secrets, *parent.secrets),
        )
        self.declared = declared
        self.inherited = parent.inherited if parent.policy is None else (*parent.inherited, parent.policy)
        self.policies = policies_of(parent)

    def fingerprint(self) -> Fingerprint:
        """What its author declared; what it inherited stands in the start record's `parent`."""
        return self.declared.fingerprint()


def policies_of(agent: Agent) -> tuple[str, ...]:
    """The names of all policies that its calls must pass, the farthest ancestor's first."""
    declared = agent.declared if isinstance(agent, Heir) else agent
    own = () if declared.policy is None else (name_of(declared.policy),)
    return (*(agent.policies if isinstance(agent, Heir) else ()), *own)


def name_of(policy: Any) -> str:
    """A policy's name, as a fingerprint has it."""
    return str(getattr(policy, "__name__", type(policy).__name__))


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
