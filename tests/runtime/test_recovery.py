"""A leg is opened: by what right, after which repair, and what a death cut off is written first."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from clew.core import events
from clew.core.compose import Move, Saying
from clew.core.outcome import Outcome
from clew.runtime.recovery import unfinished_business
from clew.stores.memory import MemoryRunStore
from clew.testing.clock import SetClock
from tests.disk.living import living
from tests.histories import Scribe, completed, failed
from tests.runtime.stage import (
    RUN,
    WHO,
    Bank,
    Forger,
    Mortal,
    code_of,
    dies,
    kinds_of,
    mortal_home,
    payer,
    records_of,
    resumes_of,
    snapshot_of,
    state_of,
)

BANK = Bank()
PAY = BANK.tool()
AGENT = payer(PAY, "1")
DIES = """
import os, signal, sys
import clew
def kill(run, prompt): os.kill(os.getpid(), signal.SIGKILL)
clew.Home(sys.argv[1]).run_sync(clew.agent(name="orders")(kill), run_id="orders-1")
"""


def interrupted(**how: Any) -> tuple[clew.Home, Mortal]:
    """A run whose process died after `started`."""
    home, store = mortal_home(**how)
    store.die_at(2)
    dies(home.run_sync, payer(Bank().tool(), "1"), run_id=RUN)
    store.revive()
    return home, store


def again(store: Any, takeover: Any) -> clew.Home:
    return clew.Home(".clew", takeover=takeover, store=store, clock=SetClock(seed="later"))


# By what right.


def test_library_code_is_refused_a_dead_owners_run() -> None:
    """Nobody said that a dead owner may be acted on: the proof is shown, and a person or a standing order decides."""
    _, store = interrupted()

    with pytest.raises(clew.Held) as caught:
        again(store, "refuse").resume_sync(RUN, AGENT)

    assert ("takeover_refused", True) == (caught.value.code, "clew resume" in caught.value.next)
    assert "yes" == caught.value.facts["proofs"][0]["answer"]


def test_a_refusal_changes_nothing_and_lets_go() -> None:
    """Otherwise the operator who comes next would find the run held by the refusal."""
    _, store = interrupted()
    before = store.raw(RUN)

    codes = [code_of(again(store, "refuse").resume_sync, RUN, AGENT) for _ in range(2)]

    assert (["takeover_refused"] * 2, before) == (codes, store.raw(RUN))


@pytest.mark.parametrize(("takeover", "standing"), [("proven", ["standing_order"]), ("operator", [])])
def test_a_takeover_journals_its_proof(takeover: Any, standing: list[str]) -> None:
    """Who took a run from whom must be readable afterwards, and by what order."""
    _, store = interrupted()
    home = again(store, takeover)
    home.resume_sync(RUN, AGENT)

    proofs = [proof["proof"] for proof in resumes_of(home)[0]["lockProof"]]

    assert ["kernel_lock", "ended_here", *standing] == proofs


def test_a_killed_process_is_proven_gone(tmp_path: Path) -> None:
    """The whole table of proofs, on a real file and a process that was really killed."""
    with living(DIES, tmp_path / ".clew") as process:
        process.ends()
    home = clew.Home(tmp_path / ".clew", takeover="operator")
    home.resume_sync(RUN, clew.agent(name="orders")(lambda run, prompt: "done"))

    proofs = [(proof["proof"], proof["answer"]) for proof in resumes_of(home)[0]["lockProof"]]

    assert [(name, "yes") for name in ("kernel_lock", "local_file_system", "same_inode", "process_gone")] == proofs


def test_an_owner_on_another_host_is_not_proven_gone() -> None:
    """A process there cannot be looked at from here; only a person can know."""
    store = MemoryRunStore()
    store.implant(RUN, Forger(store, AGENT, host="elsewhere", machineId="another").data)

    with pytest.raises(clew.Held) as caught:
        again(store, "operator").resume_sync(RUN, AGENT)

    assert ("owner_not_proven", "forged") == (caught.value.code, caught.value.facts["nonce"])
    assert f"clew unlock {RUN} --nonce forged" in caught.value.next


def test_a_leg_that_was_closed_needs_no_proof() -> None:
    """A paused run is anybody's to go on with."""
    home, _ = mortal_home(takeover="refuse")
    bank = Bank()
    bank.fates = ["fails after"]
    agent = payer(bank.tool(), "1")
    home.run_sync(agent, run_id=RUN)
    home.settle(RUN, clew.Happened({}), **WHO)
    home.resume_sync(RUN, agent)

    assert [False, False] == ["lockProof" in payload for payload in resumes_of(home)]


def test_a_foreign_run_is_not_continued() -> None:
    """Who began a journal continues it; two programs in one would each be wrong about the other."""
    store = MemoryRunStore()
    line = (
        b'{"version":1,"runId":"orders-1","sequence":1,"eventId":"e1","timestamp":"2026-11-29T14:00:00.000Z",'
        b'"kind":"start","payload":{"configName":"x","schemaVersion":1,"initialPrompt":"go"}}\n'
    )
    store.implant(RUN, line)
    home = again(store, "operator")
    planned = home.plan(RUN)

    assert planned is not None
    assert ["foreign_run"] * 3 == [
        code_of(home.resume_sync, RUN, AGENT),
        code_of(home.abort, RUN, **WHO),
        code_of(home.plan, RUN, AGENT),
    ]


# What a death left at the end of the file.


@pytest.mark.parametrize("kept", [1, 40, 300, 700])
def test_a_torn_end_is_kept_and_named_in_the_legs_first_record(kept: int) -> None:
    """Promise 6, contract #20, W8: what is cut is never lost, and the journal itself says that it was cut."""
    home, store = mortal_home()
    store.die_at(2, kept)
    agent = payer(Bank().tool(), "1")
    dies(home.run_sync, agent, run_id=RUN)
    store.revive()
    torn = home.reader.see(RUN).tail
    piece = store.raw(RUN)[torn.at_byte :]
    home.resume_sync(RUN, agent)

    repaired = resumes_of(home)[0]["tailRepaired"]
    assert ("torn", len(piece), torn.at_byte) == (torn.verdict, repaired["bytes"], repaired["atByte"])
    assert piece == store._journals[RUN].kept[repaired["keptAs"]]


def test_a_piece_that_was_cut_before_another_death_is_named_by_the_next_leg() -> None:
    """Between cutting and recording there is a moment; no byte may fall into it."""
    home, store = mortal_home()
    agent = payer(Bank().tool(), "1")
    store.die_at(2, 100)
    dies(home.run_sync, agent, run_id=RUN)
    store.revive()
    store.die_at(0)
    dies(home.resume_sync, RUN, agent)
    store.revive()
    cut = state_of(home).sequence
    home.resume_sync(RUN, agent)

    assert [list(store._journals[RUN].kept)] == [[payload["tailRepaired"]["keptAs"]] for payload in resumes_of(home)]
    assert cut + 1 == resumes_of(home)[0]["tailRepaired"]["beforeSequence"]


def test_a_piece_is_named_once() -> None:
    """A later leg must not say again what is on the record."""
    home, store = mortal_home()
    bank = Bank()
    agent = payer(bank.tool(), "1")
    store.die_at(2, 100)
    dies(home.run_sync, agent, run_id=RUN)
    store.revive()
    home.resume_sync(RUN, agent)
    home.settle(RUN, clew.GiveUp(), **WHO)

    assert [True, False] == ["tailRepaired" in payload for payload in resumes_of(home)]


# What a death cut off the end of a run.


def never(run: clew.SyncRun, prompt: Any) -> None:
    raise AssertionError("the agent was called")


NEVER = clew.agent(name="orders")(never)


def cut_ends() -> list[Any]:
    """Every end of a run, cut off after each of its records but the last."""
    whole = {"completed": completed(), "failed": failed("agent_error"), "aborted": aborted()}
    return [
        pytest.param(sayings[:left], id=f"{name}-{left}")
        for name, sayings in whole.items()
        for left in range(1, len(sayings))
    ]


def aborted() -> list[Saying]:
    return [Move("REQUEST_ABORT", "enough"), *failed("aborted")]


def cut(said: list[Saying]) -> MemoryRunStore:
    store = MemoryRunStore()
    store.implant(RUN, Forger(store, NEVER).say(*said).data)
    return store


@pytest.mark.parametrize("said", cut_ends())
def test_an_end_that_was_cut_off_is_written_without_calling_the_agent(said: list[Saying]) -> None:
    """What happened is already decided by the records; calling the agent again could only contradict them."""
    home = again(cut(said), "proven")

    result = home.resume_sync(RUN, NEVER)

    expected = "completed" if said[0] == events.agent_end("done") else "failed"
    assert (expected, "finish") == (result.operation.state, kinds_of(records_of(home))[-1])


@pytest.mark.parametrize("said", cut_ends())
def test_a_plan_has_nothing_to_decide_where_only_the_end_is_missing(said: list[Saying]) -> None:
    """The reader says so too, instead of an error."""
    home = again(cut(said), "proven")

    assert home.plan(RUN, NEVER) is None


@pytest.mark.parametrize("said", cut_ends())
def test_ensure_writes_the_end_that_was_cut_off(said: list[Saying]) -> None:
    """A program that only ever calls ensure must not leave a run without its finish for ever."""
    home = again(cut(said), "proven")

    home.ensure_sync(NEVER, run_id=RUN)

    assert "finish" == kinds_of(records_of(home))[-1]


def test_nothing_is_missing_behind_a_finish_nor_before_an_end() -> None:
    """Only what a death cut off is written; a run in motion is not ended by who opens it."""
    whole, moving = Scribe().born(), Scribe().born()
    whole.say(*completed())

    assert ([], []) == (unfinished_business(whole.state), unfinished_business(moving.state))


def test_the_reason_of_a_failure_is_the_recorded_one() -> None:
    """The next writer was not there; it repeats what FAIL said."""
    home = again(cut(failed("budget_exceeded")[:1]), "proven")
    home.resume_sync(RUN, NEVER)

    finish = records_of(home)[-1].payload

    assert msgspec.to_builtins(Outcome("failed", "budget_exceeded")) == finish["outcome"]


# What a leg leaves behind when it cannot begin.


def test_a_leg_whose_first_append_died_is_known_to_have_ended_here() -> None:
    """Its record may stand on the disk all the same, with this very process as its owner, which lives."""
    home, store = mortal_home()
    agent = payer(Bank().tool(), "1")
    store.die_at(1)
    dies(home.run_sync, agent, run_id=RUN)
    store.revive()
    store.die_at(0, None)
    dies(home.resume_sync, RUN, agent)
    store.dead = False

    result = home.resume_sync(RUN, agent)

    assert "completed" == result.operation.state
    assert "ended_here" == resumes_of(home)[1]["lockProof"][1]["proof"]


def test_a_refused_open_leaves_files_as_they_were(tmp_path: Path) -> None:
    """A refusal is a look: not a byte, not a time."""
    with living(DIES, tmp_path / ".clew") as process:
        process.ends()
    before = snapshot_of(tmp_path)

    code = code_of(clew.Home(tmp_path / ".clew").resume_sync, RUN, NEVER)

    assert ("takeover_refused", before) == (code, snapshot_of(tmp_path))


def test_a_legs_owner_is_told_member_by_member() -> None:
    """Another machine judges by these members; one that is missing makes every later takeover impossible."""
    home, _ = mortal_home()
    home.run_sync(payer(Bank().tool(), "1"), run_id=RUN)

    leg = records_of(home)[0].payload["leg"]

    members = "number nonce purpose host machineId bootId pid startTick pidNamespace user version"
    assert members.split() == list(leg)


def test_a_run_whose_birth_died_is_known_to_have_ended_here() -> None:
    """Its first record may stand there all the same; this very process is its owner, and lives."""
    home, store = mortal_home()
    agent = payer(Bank().tool(), "1")
    store.die_at(0, None)
    dies(home.run_sync, agent, run_id=RUN)
    store.revive()

    result = home.resume_sync(RUN, agent)

    assert "completed" == result.operation.state
    assert "ended_here" == resumes_of(home)[0]["lockProof"][1]["proof"]


def test_the_limits_that_a_resume_brings_are_in_its_first_record() -> None:
    """Who looks at the run must see which ones hold."""
    home, store = mortal_home()
    agent = payer(Bank().tool(), "1")
    store.die_at(1)
    dies(home.run_sync, agent, run_id=RUN)
    store.revive()

    home.resume_sync(RUN, agent, budget=clew.RunBudget(max_turns=2))

    assert [{"maxTurns": 2}] == [found["limits"] for found in resumes_of(home)]
