"""A home: every deed on runs, from the outside, and whole runs told member by member as the examples of the format."""

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.records import Record
from clew.runtime.finding import find_home
from clew.testing.clock import SetClock
from tests.core.journals import EXAMPLES
from tests.disk.living import living
from tests.runtime.stage import (
    RUN,
    WHO,
    Bank,
    async_payer,
    code_of,
    dies,
    kinds_of,
    mortal_home,
    payer,
    records_of,
    snapshot_of,
    state_of,
)

RESUMES = """
import sys
import clew
@clew.agent(name="orders")
def orders(run, prompt):
    print("at work", flush=True)
    sys.stdin.readline()
try:
    clew.Home(sys.argv[1], takeover="operator").resume_sync("orders-1", orders)
except clew.ClewError as fault:
    print(type(fault).__name__, fault.code, flush=True)
"""
DIES = """
import os, signal, sys
import clew
@clew.agent(name="orders")
def orders(run, prompt):
    os.kill(os.getpid(), signal.SIGKILL)
clew.Home(sys.argv[1]).run_sync(orders, run_id="orders-1")
"""


def agent(body: Callable[..., Any], **declared: Any) -> clew.Agent:
    found = clew.agent(**{"name": "orders", **declared})(body)
    assert isinstance(found, clew.Agent)
    return found


ANSWERS = agent(lambda run, prompt: prompt)


# Where a home is.


def test_making_a_home_touches_nothing(tmp_path: Path) -> None:
    """A program that only might run something leaves no folder behind."""
    home = clew.Home(tmp_path / ".clew")
    rows = list(home.runs())

    assert ([], []) == (rows, list(tmp_path.iterdir()))


def test_a_home_is_found_upwards_like_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From any folder below, the same home; the environment outweighs it."""
    (tmp_path / ".clew").mkdir()
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.delenv("CLEW_HOME", raising=False)
    monkeypatch.chdir(tmp_path / "a" / "b")
    upwards = clew.Home().path
    monkeypatch.setenv("CLEW_HOME", "elsewhere")

    assert (tmp_path / ".clew", tmp_path / "a" / "b" / "elsewhere") == (upwards, clew.Home().path)


def test_without_a_home_above_it_will_be_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run makes it in the current folder."""
    monkeypatch.delenv("CLEW_HOME", raising=False)
    monkeypatch.chdir(tmp_path)

    assert (None, tmp_path / ".clew") == (find_home(tmp_path), clew.Home().path)


def test_a_home_inside_of_the_named_folder_is_pointed_at(tmp_path: Path) -> None:
    """The usual mistake: the project's folder instead of the home in it."""
    (tmp_path / ".clew").mkdir()

    with pytest.raises(clew.NotFound) as caught:
        clew.Home(tmp_path).require()

    assert str(tmp_path / ".clew") in caught.value.next


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (lambda home: clew.Home(takeover="yes"), "invalid_takeover"),  # type: ignore[arg-type]  # what a caller may write
        (lambda home: home.run_sync(ANSWERS, on_error="stop"), "invalid_order"),
        (lambda home: home.run_sync(ANSWERS, on_limit="stop"), "invalid_order"),
        (lambda home: home.run_sync(ANSWERS, run_id="../x"), "invalid_run_id"),
        (lambda home: home.run_sync(ANSWERS, object()), "value_not_json"),
        (lambda home: home.resume_sync("nobody", ANSWERS), "unknown_run"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_made(wrong: Any, code: str) -> None:
    """A typing error must not become a run."""
    home = clew.Home.memory()

    assert (code, []) == (code_of(wrong, home), list(home.runs()))


def test_a_run_without_a_name_gets_one() -> None:
    """Its random part first, then the day."""
    home = clew.Home.memory(clock=SetClock())

    assert "261129" == home.run_sync(ANSWERS).run_id.partition("-")[2]


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_both_kinds_of_agents_run_behind_both_doors(is_async: bool) -> None:
    """`run` and `run_sync` take either; the difference is the caller's, not the agent's."""
    bank = Bank()
    found = async_payer(bank.tool(), "1") if is_async else payer(bank.tool(), "1")
    home = clew.Home.memory()

    results = [home.run_sync(found), asyncio.run(home.run(found))]

    assert [[{"transfer": "T-1"}]] * 2 == [result.output for result in results]


# Ensure.


def test_ensure_starts_continues_and_then_returns_what_is_finished() -> None:
    """A program says what it wants to be so, every time it is started."""
    home, store = mortal_home()
    bank = Bank()
    found = payer(bank.tool(), "1", "2")
    store.die_at(3)
    dies(home.ensure_sync, found, "go", run_id=RUN)
    store.revive()
    continued = home.ensure_sync(found, "go", run_id=RUN)
    before = store.raw(RUN)
    finished = home.ensure_sync(found, "go", run_id=RUN)

    assert (continued.output, before) == (finished.output, store.raw(RUN))
    assert [1, 1] == [bank.orders[order] for order in "12"]


def test_ensure_on_a_loop_does_the_same() -> None:
    """Its three ways are the same three."""
    home = clew.Home.memory()
    bank = Bank()
    first = agent(lambda run, prompt: run.call(bank.tool(), order="1") and 1 // 0)

    async def main() -> list[str]:
        found = [first, async_payer(bank.tool(), "1"), async_payer(bank.tool(), "1")]
        return [(await home.ensure(each, "go", run_id=RUN)).operation.state for each in found]

    assert (["paused", "completed", "completed"], 1) == (asyncio.run(main()), bank.orders["1"])


def test_two_who_ensure_the_same_run_at_once_start_it_once() -> None:
    """The loser of the race to be first finds the run ended, or held by the winner; never a conflict of ids."""
    bank = Bank()
    home, _ = mortal_home()

    async def both() -> list[Any]:
        agent = async_payer(bank.tool(), "1042")
        return await asyncio.gather(*(home.ensure(agent, "settle", run_id=RUN) for _ in range(2)))

    results = asyncio.run(both())

    assert ["completed", "completed"] == [result.operation.state for result in results]
    assert {"1042": 1} == dict(bank.orders)


@pytest.mark.parametrize("finished", [True, False])
def test_ensure_with_another_input_is_a_conflict(finished: bool) -> None:
    """The answer that stands is the answer to another question."""
    home = clew.Home.memory()
    home.run_sync(ANSWERS if finished else agent(lambda run, prompt: 1 // 0), "go", run_id=RUN)

    assert "resume_input_mismatch" == code_of(home.ensure_sync, ANSWERS, "something else", run_id=RUN)


# Two at once.


def test_of_two_resumes_at_once_one_goes_on_and_the_other_writes_nothing(tmp_path: Path) -> None:
    """Real files, real processes: the kernel decides, and the loser has not touched a byte."""
    with living(DIES, tmp_path / ".clew") as process:
        process.ends()
    with living(RESUMES, tmp_path / ".clew") as one, living(RESUMES, tmp_path / ".clew") as other:
        said = {"one": one.says()}
        if said["one"] == "at work":
            before = snapshot_of(tmp_path / ".clew")
            said["other"] = other.says()
        else:
            other.says()
            before = snapshot_of(tmp_path / ".clew")
            said["other"] = "at work"
        after = snapshot_of(tmp_path / ".clew")
        one.kill()
        other.kill()

    assert ["Held run_state_locked", "at work"] == sorted(said.values())
    assert before == after


def test_of_two_starts_under_one_id_one_is_refused(tmp_path: Path) -> None:
    """Born once: the second hears of the first."""
    home = clew.Home(tmp_path / ".clew")
    home.run_sync(ANSWERS, run_id=RUN)

    assert "run_id_conflict" == code_of(clew.Home(tmp_path / ".clew").run_sync, ANSWERS, run_id=RUN.upper())


# Whole runs, as the examples of the format tell them.

TOLD = frozenset(
    [
        "type",
        "kind",
        "status",
        "event",
        "from",
        "to",
        "state",
        "outcome",
        "source",
        "decision",
        "reason",
        "finishReason",
        "purpose",
        "attempt",
        "proof",
        "answer",
        "isError",
        "resultRecorded",
        "stepId",
        "callId",
        "recoveryDisposition",
        "effect",
        "replay",
        "inDoubtS",
        "accepted",
        "by",
    ]
)
PAYMENT = {"order": "1042", "cents": 4200}


def shape(value: Any, name: str = "") -> Any:
    """A payload without what differs from run to run: its members in their order, and the words that have a meaning."""
    if isinstance(value, dict):
        return [(key, shape(value[key], key)) for key in value]
    if isinstance(value, list):
        return [shape(each, name) for each in value]
    return value if name in TOLD else type(value).__name__


def told_by(records: list[Record]) -> list[Any]:
    """Record by record: its kind, whether it begins an append, and the shape of its payload."""
    return [(record.kind, record.append == record.sequence, shape(record.payload)) for record in records]


def example(name: str) -> list[Any]:
    lines = next(path for path in EXAMPLES if path.stem == name).read_bytes().splitlines()
    found = [json.loads(line) for line in lines]
    return [(one["kind"], one["append"] == one["sequence"], shape(one["payload"])) for one in found]


def ask(request: Any) -> Any:
    """A model whose provider reports no usage."""
    return {"toolCalls": [{"tool": "pay", "args": PAYMENT}]}


def settles(pay: clew.Tool) -> clew.Agent:
    def orders(run: clew.SyncRun, prompt: Any) -> str:
        for wanted in run.turn(ask, prompt)["toolCalls"]:
            run.call(pay, **wanted["args"])
        return "settled order 1042"

    return agent(orders, tools=[pay])


def test_a_completed_run_is_told_as_the_example() -> None:
    """Member for member and in this order: another program reads it by position of meaning, not by luck."""
    home = clew.Home.memory()
    pay = clew.tool(name="pay", effect="external")(lambda order, cents: {"transfer": "T-77"})
    home.run_sync(settles(pay), "settle order 1042", run_id=RUN, budget=clew.RunBudget(max_calls=20))

    assert example("completed") == told_by(records_of(home))


def test_a_second_attempt_is_told_as_the_example() -> None:
    """Timed out, asked after, did not happen, started again under the same key."""
    home = clew.Home.memory(clock=SetClock())
    left = ["first"]

    def body(call: clew.Call, order: str, cents: int) -> dict[str, str]:
        if left:
            left.pop()
            raise TimeoutError("no answer")
        return {"transfer": "T-78"}

    def find_payment(call: clew.Call) -> clew.Verdict:
        return clew.DidNotHappen("no payment under this key 30 s after the last start")

    pay = clew.tool(name="pay", effect="external", probe=find_payment, in_doubt_s=30)(body)
    home.run_sync(settles(pay), "settle order 1042", run_id=RUN, budget=clew.RunBudget(max_calls=20))

    assert example("second_attempt") == told_by(records_of(home))


def test_a_run_that_waits_for_an_approval_is_told_as_the_example() -> None:
    """#171: the question is a record before anybody is asked; the call is not recorded, and no model is asked again."""
    home = clew.Home.memory()
    pay = clew.tool(name="pay", effect="external")(lambda order, cents: {"transfer": "T-77"})

    def orders(run: clew.SyncRun, prompt: Any) -> str:
        for wanted in run.turn(ask, prompt)["toolCalls"]:
            run.propose(pay, **wanted["args"])
        return "settled order 1042"

    home.run_sync(agent(orders, tools=[pay]), "settle order 1042", run_id=RUN, budget=clew.RunBudget(max_calls=20))

    assert example("paused") == told_by(records_of(home))


KILLED = """
import os, signal, sys
import clew
from tests.runtime.test_home import settles
@clew.tool(name="pay", effect="external")
def pay(order, cents):
    torn = b'{"version":1,"runId":"orders-1","sequence":10,"eventId":"' + b"n" * 200
    with open(os.path.join(sys.argv[1], "runs", "orders-1.jsonl"), "ab") as journal:
        journal.write(torn[:212])
    os.kill(os.getpid(), signal.SIGKILL)
home = clew.Home(sys.argv[1])
home.run_sync(settles(pay), "settle order 1042", run_id="orders-1", budget=clew.RunBudget(max_calls=20))
"""


def test_a_settled_run_is_told_as_the_example(tmp_path: Path) -> None:
    """Killed in the middle of an append, taken over by proof, settled by a person, resumed."""
    with living(KILLED, tmp_path / ".clew") as process:
        process.ends()
    home = clew.Home(tmp_path / ".clew", takeover="operator")
    reason, line = "bank statement shows transfer T-77", "statement 2026-11-29, line 14"
    home.settle(RUN, clew.Happened({"transfer": "T-77"}), by="ann", reason=reason, evidence=[line])
    pay = clew.tool(name="pay", effect="external")(lambda order, cents: {"transfer": "never"})
    home.resume_sync(RUN, settles(pay))

    assert example("settled") == told_by(records_of(home))


def test_a_torn_end_of_212_bytes_is_kept_beside_the_journal(tmp_path: Path) -> None:
    """The same run, seen in its folder: the piece under its offset and digest."""
    with living(KILLED, tmp_path / ".clew") as process:
        process.ends()
    clew.Home(tmp_path / ".clew", takeover="operator").abort(RUN, **WHO)

    (piece,) = (tmp_path / ".clew" / "runs" / RUN).glob("torn-*")

    assert 212 == len(piece.read_bytes())


# Results.


def test_what_is_written_is_watched_from_the_first_record_on() -> None:
    """A face that shows progress sees what is durable, and nothing else."""
    home = clew.Home.memory()
    seen: list[Record] = []
    home.run_sync(ANSWERS, run_id=RUN, on_record=seen.append)

    assert kinds_of(records_of(home)) == kinds_of(seen)


def test_a_workspace_is_recorded_and_the_same_at_resume(tmp_path: Path) -> None:
    """A resume from another folder must not touch other files."""
    (tmp_path / "work").mkdir()
    places: list[str] = []

    def body(run: clew.SyncRun, prompt: Any) -> None:
        places.append(os.path.realpath(run.workspace))
        raise LookupError

    home = clew.Home(tmp_path / ".clew", workspace=tmp_path / "work")
    home.run_sync(agent(body), run_id=RUN)
    clew.Home(tmp_path / ".clew").resume_sync(RUN, agent(body))

    assert [os.path.realpath(tmp_path / "work")] * 2 == places
    assert "work" == state_of(home).start["workspace"]


def test_a_copied_home_goes_on_once_a_person_has_said_so(tmp_path: Path) -> None:
    """Until then each door that would write is shut, and each that looks is open."""
    clew.Home(tmp_path / ".clew").run_sync(agent(lambda run, prompt: 1 // 0), run_id=RUN)
    shutil.copytree(tmp_path / ".clew", tmp_path / "copy")
    home = clew.Home(tmp_path / "copy", takeover="operator")
    if home.checkup().survey.standing != "copy":
        pytest.skip("this file system has nothing that tells a home from its copy")

    shut = [
        code_of(home.resume_sync, RUN, ANSWERS), code_of(home.abort, RUN, **WHO), code_of(home.pause, RUN, **WHO),
        code_of(home.unlock, RUN, nonce="n", **WHO), code_of(home.accept_loss, RUN, **WHO),
        code_of(home.settle, RUN, clew.GiveUp(), **WHO), code_of(home.ensure_sync, ANSWERS, run_id=RUN),
    ]  # fmt: skip
    seen = (home.result(RUN).operation.state, len(list(home.runs())), home.verify(RUN)["state"])
    home.unlock_copy(**WHO)

    assert {"home_copied"} == set(shut)
    assert ("paused", 1, "paused") == seen
    assert "completed" == home.resume_sync(RUN, ANSWERS).operation.state


@pytest.mark.parametrize("who", [{"by": "", "reason": "moved"}, {"by": "ann", "reason": " "}])
def test_a_copy_is_freed_by_somebody_for_a_reason(tmp_path: Path, who: dict[str, str]) -> None:
    """As every word that stands for a proof."""
    home = clew.Home(tmp_path / ".clew")
    home.run_sync(ANSWERS, run_id=RUN)

    assert "review_incomplete" == code_of(home.unlock_copy, **who)


def test_a_home_in_memory_is_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And whatever home lies in the current folder is not meant."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".clew" / "runs").mkdir(parents=True)
    (tmp_path / ".clew" / "home.json").write_text("{", "utf-8")

    assert "nothing_to_unlock" == code_of(clew.Home.memory().unlock_copy, **WHO)
    assert "{" == (tmp_path / ".clew" / "home.json").read_text("utf-8")


def test_a_copied_home_can_be_freed_while_it_is_open(tmp_path: Path) -> None:
    """A service that was started on a backup need not be started again."""
    clew.Home(tmp_path / ".clew").run_sync(ANSWERS, run_id=RUN)
    shutil.copytree(tmp_path / ".clew", tmp_path / "copy")
    home = clew.Home(tmp_path / "copy")
    home.run_sync(agent(lambda run, prompt: 1 // 0), run_id="new")
    if home.checkup().survey.standing != "copy":
        pytest.skip("this file system has nothing that tells a home from its copy")
    before = code_of(home.resume_sync, "new", ANSWERS)
    home.unlock_copy(**WHO)

    assert ("home_copied", "completed") == (before, home.resume_sync("new", ANSWERS).operation.state)
