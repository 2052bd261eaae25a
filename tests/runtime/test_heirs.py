"""What an agent inherits when it is delegated to: its parent's policy and secrets, never less than it had."""

from typing import Any

import pytest

import clew
from clew.core.state import RunState
from clew.runtime.heirs import Heir, check_inherited, policies_of
from clew.runtime.tools import Agent


def body(run: Any, prompt: Any) -> None:
    return None


def careful(call: clew.Call) -> str | None:
    return "careful says no" if call.tool == "pay" else None


def frugal(call: clew.Call) -> str | None:
    return "frugal says no" if call.tool == "look" else None


CALLS = {name: clew.Call(f"r:{name}-1:c1", tool=name) for name in ("pay", "look", "read")}


def said(agent: Agent) -> list[str | None]:
    return [None if agent.policy is None else agent.policy(call) for call in CALLS.values()]


def test_what_either_policy_denies_is_denied() -> None:
    """A policy can only narrow on the way down."""
    heir = Heir(Agent(body, policy=frugal), Agent(body, policy=careful))

    assert ["careful says no", "frugal says no", None] == said(heir)


@pytest.mark.parametrize("policies", [(careful, None), (None, careful)])
def test_one_policy_alone_is_asked_alone(policies: tuple[Any, Any]) -> None:
    """Whoever declared it."""
    above, below = policies
    heir = Heir(Agent(body, policy=below), Agent(body, policy=above))

    assert ["careful says no", None, None] == said(heir)


def test_without_any_policy_everything_is_allowed() -> None:
    """As without a parent."""
    assert Heir(Agent(body), Agent(body)).policy is None


def test_an_heir_stays_who_it_is() -> None:
    """Its run goes on under what its own author declared."""
    declared = Agent(body, name="worker", policy=frugal, config={"model": "small"}, secrets=["a-secret"])
    heir = Heir(declared, Agent(body, policy=careful, secrets=["another"]))

    assert (declared.fingerprint(), "worker", {"model": "small"}, ("a-secret", "another")) == (
        heir.fingerprint(), heir.name, heir.config, heir.secrets,
    )  # fmt: skip


def test_policies_are_named_from_the_farthest_ancestor_on() -> None:
    """A grandchild inherits from both."""
    middle = Heir(Agent(body, policy=frugal), Agent(body, policy=careful))
    lowest = Heir(Agent(body), middle)

    assert (("careful",), ("careful", "frugal"), ("careful", "frugal")) == (
        middle.policies, lowest.policies, policies_of(lowest),
    )  # fmt: skip


def born_under(*policies: str) -> RunState:
    state = RunState("kid")
    state.start = {"parent": {"runId": "top", "policies": list(policies)}}
    return state


def test_a_child_goes_on_under_more_policies_than_it_was_born_under() -> None:
    """Narrower is allowed."""
    heir = Heir(Agent(body), Heir(Agent(body, policy=frugal), Agent(body, policy=careful)))
    check_inherited(born_under("careful"), heir)

    assert ("careful", "frugal") == heir.policies


@pytest.mark.parametrize("agent", [Agent(body), Heir(Agent(body), Agent(body, policy=frugal))])
def test_a_child_does_not_go_on_under_fewer(agent: Agent) -> None:
    """#246: `child_run_policy_escalation`, naming what is lacking and who has it."""
    with pytest.raises(clew.Refused) as caught:
        check_inherited(born_under("careful"), agent)

    assert ("child_run_policy_escalation", ["careful"], "top") == (
        caught.value.code, caught.value.facts["policies"], caught.value.facts["parent"],
    )  # fmt: skip


def test_a_run_that_nobody_delegated_inherits_nothing() -> None:
    """Its start names no parent."""
    state = RunState("alone")
    check_inherited(state, Agent(body))

    assert {} == state.start
