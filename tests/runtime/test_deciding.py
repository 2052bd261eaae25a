"""A person decides about a start: days later in another process under the lock, or by the inbox of a living writer."""

from pathlib import Path
from typing import Any

import pytest

import clew
from clew.testing.clock import SetClock
from tests.disk.living import living
from tests.runtime.stage import RUN, WHO, Bank, code_of, dies, events_of, kinds_of, mortal_home, payer, records_of

# A call waits for its approval while its sibling is under way: until then, the writer lives.
WRITER = """
import sys
import clew
home = clew.Home(sys.argv[1])
@clew.tool(effect="external")
def pay(order): return "T-" + order
@clew.tool(effect="none")
def waits():
    sys.stdin.readline()
    return "waited"
def watch(record):
    if record.kind == "event" and record.payload["event"].get("type") == "approval_required":
        print("asked", flush=True)
@clew.agent(tools=[pay, waits])
async def orders(run, prompt):
    async with run.group() as group:
        group.call(waits)
        group.propose(pay, order="1")
    return group.results
result = home.run_sync(orders, run_id="orders-1", on_record=watch)
print(result.operation.state, result.reason, flush=True)
"""


def asking(**how: Any) -> tuple[clew.Home, Bank, clew.Agent]:
    """A run that is paused for its approval."""
    home, bank = clew.Home.memory(clock=SetClock()), Bank()
    agent = payer(bank.tool(), "1", policy=clew.Policy("ask", **how))
    home.run_sync(agent, run_id=RUN)
    return home, bank, agent


def legs_of(home: clew.Home) -> list[str]:
    return [leg["purpose"] for leg in home.result(RUN).snapshot["legs"]]


def test_a_yes_is_recorded_alone_and_the_run_stays_paused() -> None:
    """journal.md §1: `approval_resolved` alone; the start is the next leg's."""
    home, bank, _ = asking()
    before = len(records_of(home))

    row = home.approve(RUN, **WHO)

    assert ["resume", "approval_resolved", "leg_ended"] == kinds_of(records_of(home)[before:])
    assert ("granted", "ann", "looked at the bank", 0) == (
        row["standing"], row["by"], row["reason"], sum(bank.paid.values()),
    )  # fmt: skip


def test_a_no_records_the_call_as_not_started_and_pauses() -> None:
    """#166: paused, `tool_approval_denied`; exit 20."""
    home, _, _ = asking()
    before = len(records_of(home))

    home.deny(RUN, **WHO)

    said = ["approval_resolved", "tool_call", "capability_resolved", "effect_receipt"]
    assert ["resume", "RESUME", *said, "PAUSE", "pause"] == kinds_of(records_of(home)[before:])
    assert ("tool_approval_denied", 20) == (home.result(RUN).reason, home.result(RUN).exit_code)


def test_who_said_no_is_told_whoever_looked_in_since() -> None:
    """The agent is not asked again because of them, so what they said still holds."""
    home, _, _ = asking()
    home.deny(RUN, **WHO)
    home.steer(RUN, "the other account", by="ben")
    row = home.reader.row(RUN)

    assert ("tool_approval_denied", "pay-1 was denied by ann: looked at the bank") == (row["reason"], row["message"])


def test_denied_then_approved_it_is_done_once() -> None:
    """#249: deny, paused; resume and approve: one committed receipt, one change; a further resume is refused."""
    home, bank, agent = asking()
    home.deny(RUN, **WHO)
    asked = home.resume_sync(RUN, agent)
    home.approve(RUN, **WHO)

    done = home.resume_sync(RUN, agent)

    assert ("approval_required", "completed", 1) == (asked.reason, done.operation.state, sum(bank.paid.values()))
    assert "run_already_finished" == code_of(home.resume_sync, RUN, agent)


def test_a_no_as_the_answer_is_replayed() -> None:
    """The agent is told for good; nobody is asked again."""
    home, bank, _ = asking()
    agent = payer(bank.tool(), "1", policy=clew.Policy("ask"))
    home.deny(RUN, as_answer=True, **WHO)

    first, second = home.resume_sync(RUN, agent), home.resume_sync(RUN, agent)

    assert ["agent_error", "agent_error"] == [first.reason, second.reason]
    assert isinstance(first.fault, clew.Denied)
    assert (1, 0) == (len(events_of(home, "approval_required")), sum(bank.paid.values()))


@pytest.mark.parametrize("deny", [False, True])
def test_several_questions_are_decided_one_by_one(deny: bool) -> None:
    """While one waits, the run waits for that one."""
    home, bank = clew.Home.memory(clock=SetClock()), Bank()
    pay = bank.tool()

    def orders(run: clew.SyncRun, prompt: Any) -> Any:
        with run.group() as group:
            group.propose(pay, order="1")
            group.propose(pay, order="2")
        return group.results

    home.run_sync(clew.Agent(orders, name="orders", tools=[pay]), run_id=RUN)
    code = code_of(home.approve, RUN, **WHO)
    (home.deny if deny else home.approve)(RUN, call="a1", **WHO)

    assert ("which_approval", "approval_required") == (code, home.result(RUN).reason)
    assert ["a2"] == [row["approvalId"] for row in home.result(RUN).waiting]


def test_what_is_decided_stays_decided() -> None:
    """The second reviewer is told who was first."""
    home, _, _ = asking()
    home.approve(RUN, **WHO)

    with pytest.raises(clew.Refused) as caught:
        home.deny(RUN, by="bob", reason="no")

    assert "approval_closed" == caught.value.code
    assert "decided by 'ann' (looked at the bank)" in caught.value.message


def test_nothing_is_changed_by_what_is_refused() -> None:
    """No leg, no record."""
    home, _, _ = asking()
    before = len(records_of(home))

    codes = [code_of(home.approve, RUN, call="pay-9", **WHO), code_of(home.approve, RUN, by="", reason="x")]

    assert (["nothing_to_approve", "review_incomplete"], before) == (codes, len(records_of(home)))


def test_a_question_is_decided_by_its_whole_key() -> None:
    """It is what logs and lists show."""
    home, _, _ = asking()

    assert "granted" == home.approve(f"{RUN}:pay-1:c1", **WHO)["standing"]


def test_a_question_that_lapsed_is_not_decided() -> None:
    """A yes that came too late is for the next question."""
    home, _, agent = asking(expires_in_s=60)
    home._parts.clock.advance(60)  # type: ignore[attr-defined]  # the set clock

    assert "approval_expired" == code_of(home.approve, RUN, **WHO)
    assert "approval_required" == home.resume_sync(RUN, agent).reason
    assert "a2" == home.approve(RUN, **WHO)["approvalId"]


def test_a_run_that_died_with_its_question_is_decided_all_the_same() -> None:
    """C97: killed between the question and the pause; the journal alone knows it."""
    home, store = mortal_home()
    bank = Bank()
    agent = payer(bank.tool(), "1", policy=clew.Policy("ask"))
    store.die_at(2)
    dies(home.run_sync, agent, run_id=RUN)
    store.revive()

    home.approve(RUN, **WHO)

    assert ("completed", 1) == (home.resume_sync(RUN, agent).operation.state, sum(bank.paid.values()))


def test_a_death_in_the_decision_leaves_the_question_or_the_word() -> None:
    """Every prefix of its appends is legal, and a second try comes to its end."""
    for appends in range(3):
        home, store = mortal_home()
        bank = Bank()
        agent = payer(bank.tool(), "1", policy=clew.Policy("ask"))
        home.run_sync(agent, run_id=RUN)
        store.die_at(appends)
        dies(home.deny, RUN, **WHO) if appends < 2 else home.deny(RUN, **WHO)
        store.revive()
        asked = home.resume_sync(RUN, agent)
        home.approve(RUN, **WHO)

        done = home.resume_sync(RUN, agent)

        assert ("approval_required", "completed", 1) == (asked.reason, done.operation.state, sum(bank.paid.values()))


@pytest.mark.parametrize("word", ["approve", "deny"])
def test_a_living_writer_takes_the_word_in(tmp_path: Path, word: str) -> None:
    """C104: approved while a sibling is under way; found where the call is decided next."""
    home = clew.Home(tmp_path / ".clew", takeover="operator")
    with living(WRITER, str(home.path)) as writer:
        assert "asked" == writer.says()
        row = (home.approve if word == "approve" else home.deny)(RUN, **WHO)
        writer.go_on()
        ended = writer.says()

    standing = "granted" if word == "approve" else "denied"
    reason = "approval_required" if word == "approve" else "tool_approval_denied"
    assert (standing, f"paused {reason}") == (row["standing"], ended)


def test_an_ended_run_is_not_decided() -> None:
    """Nothing of it starts any more; the question is closed with it."""
    home, _, _ = asking()
    home.abort(RUN, **WHO)

    assert "nothing_to_approve" == code_of(home.approve, RUN, **WHO)
    assert [] == home.result(RUN).waiting


def test_the_legs_of_a_decision_say_what_they_are_for() -> None:
    """An audit sees who opened the run and why."""
    home, _, _ = asking()
    home.approve(RUN, **WHO)

    assert ["run", "control"] == legs_of(home)
