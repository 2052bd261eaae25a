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


def test_all_policies_are_asked_the_farthest_first() -> None:
    """A policy can only narrow on the way down; by rules or by code."""
    rules = clew.Policy("ask")
    heir = Heir(Agent(body, policy=rules), Heir(Agent(body, policy=frugal), Agent(body, policy=careful)))

    assert ((careful, frugal), rules) == (heir.inherited, heir.policy)


def test_who_has_none_inherits_what_its_parent_inherited() -> None:
    """An agent without a policy in between lets nothing slip."""
    heir = Heir(Agent(body), Heir(Agent(body), Agent(body, policy=careful)))

    assert ((careful,), None) == (heir.inherited, heir.policy)


def test_without_any_policy_nothing_is_inherited() -> None:
    """As without a parent."""
    heir = Heir(Agent(body), Agent(body))

    assert ((), None) == (heir.inherited, heir.policy)


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
