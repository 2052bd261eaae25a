"""Looking at runs: rows, accounts, verdicts. Nothing is written, nothing locked, nothing invented."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.records import Head
from clew.core.resume import Facts
from clew.stores.memory import MemoryBlobStore, MemoryRunStore
from clew.testing.clock import SetClock
from tests.core.journals import EXAMPLES
from tests.disk.living import living
from tests.runtime.stage import (
    RUN,
    WHO,
    Bank,
    Forger,
    code_of,
    dies,
    mortal_home,
    payer,
    records_of,
    snapshot_of,
    state_of,
)

HOLDS = """
import sys
import clew
@clew.agent(name="orders")
def orders(run, prompt):
    run.step("plan", lambda: 1)
    print("at work", flush=True)
    sys.stdin.readline()
clew.Home(sys.argv[1]).run_sync(orders, "go", run_id="orders-1")
"""
CONTRACT = (
    "schemaVersion", "runId", "operation", "outcome", "metrics", "evaluation", "releaseReadiness", "trace",
    "checkpoints", "artifacts", "extensions", "resumable",
)  # fmt: skip


def memory(data: bytes) -> clew.Home:
    store = MemoryRunStore()
    store.implant(RUN, data)
    return clew.Home(".clew", store=store, clock=SetClock())


def shown(home: clew.Home) -> str:
    return str(next(home.runs())["shown"])


def open_run() -> clew.Home:
    """A run that died in a payment."""
    home, store = mortal_home()
    store.die_at(2)
    dies(home.run_sync, payer(Bank().tool(), "1"), "go", run_id=RUN)
    store.revive()
    return home


# Rows.


def test_a_living_run_is_running_a_stopped_one_stopped_and_a_dead_one_interrupted(tmp_path: Path) -> None:
    """The journal says "running" of all three; only the process can tell them apart."""
    home = clew.Home(tmp_path / ".clew")
    seen = []
    with living(HOLDS, tmp_path / ".clew") as process:
        process.says()
        seen.append(shown(home))
        process.stop()
        seen.append(shown(home))
        process.kill()
        seen.append(shown(home))

    assert ["running", "stopped", "interrupted"] == seen


def test_a_run_of_another_host_is_shown_as_such() -> None:
    """From here nobody can say whether it runs."""
    store = MemoryRunStore()
    store.implant(RUN, Forger(store, payer(Bank().tool()), host="elsewhere", machineId="another").data)

    assert "owner_elsewhere" == shown(clew.Home(".clew", store=store))


def test_a_settled_run_whose_owner_died_is_still_interrupted() -> None:
    """Somebody settled an effect and went home: nobody runs it."""
    home = open_run()
    home.settle(RUN, clew.Happened(), **WHO)

    assert ("running", "interrupted") == (next(home.runs())["state"], shown(home))


@pytest.mark.parametrize(("end", "state"), [(clew.GiveUp(), "failed"), (None, "paused")])
def test_a_run_at_rest_is_shown_as_its_journal_says(end: Any, state: str) -> None:
    """No process is asked after; there is none."""
    home = open_run()
    home.resume_sync(RUN, payer(Bank().tool(), "1"))
    if end is not None:
        home.settle(RUN, end, **WHO)

    assert state == shown(home)


def test_an_unreadable_run_is_a_row_that_says_why() -> None:
    """One damaged journal must not hide the others from the list."""
    home, store = mortal_home()
    home.run_sync(clew.agent(name="orders")(lambda run, prompt: 1), run_id="good")
    store.implant("bad", b"not a journal\n" * 2)

    rows = {row["runId"]: (row["shown"], row["reason"]) for row in home.runs()}

    assert {"good": ("completed", "completed"), "bad": ("unreadable", "run_state_corrupt")} == rows


def test_a_row_whose_effect_cannot_be_read_is_unreadable() -> None:
    """The head is right about the length, and the record that it points at is damaged."""
    home = open_run()
    home.resume_sync(RUN, payer(Bank().tool(), "1"))
    store: Any = home.reader.store
    store._journals[RUN].data = bytearray(store.raw(RUN).replace(b'"tool_call"', b'"tool_cal'))
    store._journals[RUN].data += b" " * (store.head(RUN).size_bytes - len(store.raw(RUN)))

    assert ("unreadable", "run_state_corrupt") == (shown(home), next(home.runs())["reason"])


def test_a_torn_end_is_shown() -> None:
    """Nobody acknowledged it; the next writer keeps and cuts it."""
    home, store = mortal_home()
    store.die_at(2, 100)
    dies(home.run_sync, payer(Bank().tool(), "1"), run_id=RUN)
    store.revive()

    row = next(home.runs())

    assert ("interrupted", "torn") == (row["shown"], row["tail"])


def test_a_row_comes_from_the_head_when_that_is_as_far() -> None:
    """A list of a thousand runs reads a thousand heads, not their journals."""
    home, store = mortal_home()
    home.run_sync(clew.agent(name="orders")(lambda run, prompt: 1), run_id=RUN)
    journal = store._journals[RUN]
    assert journal.head is not None
    told = {**journal.head.row, "input": "from the head"}
    journal.head = Head(journal.head.sequence, journal.head.chain, len(journal.data), told)

    assert "from the head" == next(home.runs())["input"]


@pytest.mark.parametrize("change", [{"size_bytes": 1}, {"row": {}}])
def test_a_row_comes_from_the_journal_when_the_head_is_behind_or_says_nothing(change: dict[str, Any]) -> None:
    """A head is a lower bound, and another version may write other rows."""
    home, store = mortal_home()
    home.run_sync(clew.agent(name="orders")(lambda run, prompt: 1), run_id=RUN)
    head = store._journals[RUN].head
    assert head is not None
    values = {"sequence": head.sequence, "chain": head.chain, "size_bytes": head.size_bytes, "row": head.row, **change}
    store._journals[RUN].head = Head(**values)

    assert ("completed", "orders") == tuple(next(home.runs())[name] for name in ("state", "agent"))


def test_a_long_journal_is_not_read_to_its_end_for_a_list() -> None:
    """One run of gigabytes must not hold up the list of all others; what the row does not know it says."""
    home, _ = mortal_home()
    home.run_sync(clew.agent(name="orders")(lambda run, prompt: 1), run_id=RUN)
    store: Any = home.reader.store
    journal = store._journals[RUN]
    whole = len(journal.data)
    journal.head = Head(1, "", 700, {**journal.head.row, "state": "running", "agent": "from the head"})
    behind = home.reader.row(RUN, listed=700)
    journal.head = None
    beginning = home.reader.row(RUN, listed=16)
    short = home.reader.row(RUN, listed=whole)

    assert [
        ("from the head", "running", whole - 700),
        ("orders", "accepted", whole - 1),
        ("orders", "completed", None),
    ] == [(row["agent"], row["state"], row.get("unreadBytes")) for row in (behind, beginning, short)]


def test_a_long_journal_that_lost_its_end_is_not_listed_by_its_head() -> None:
    """The head says `completed`; the records that say so are gone, and with them whatever they told of."""
    home, _ = mortal_home()
    home.run_sync(clew.agent(name="orders")(lambda run, prompt: 1), run_id=RUN)
    store: Any = home.reader.store
    del store._journals[RUN].data[store.raw(RUN).rindex(b"\n", 0, -1) + 1 :]

    row = home.reader.row(RUN, listed=16)

    assert ("unreadable", "run_state_corrupt") == (row["shown"], row["reason"])


def test_a_snapshot_can_be_passed_on_without_being_kept() -> None:
    """The same members and the same values, its long lists one entry after another."""
    home = open_run()
    seen = home.reader.examine(RUN)
    unrolled = home.reader.unrolled(seen)
    read = {name: list(value) if isinstance(value, Iterator) else value for name, value in unrolled.items()}

    assert home.reader.account(RUN) == read
    assert (list(home.reader.account(RUN)), []) == (list(unrolled), home.reader.outline(seen)["effects"])


def test_a_row_shows_what_an_effect_was_about() -> None:
    """Which payment it is, a person reads from its arguments."""
    home = open_run()

    assert [{"order": "1"}] == [effect["arguments"] for effect in next(home.runs())["waiting"]]


def test_rows_begin_with_the_run_that_was_started_last() -> None:
    """That is the one a person asks for."""
    home, _ = mortal_home()
    clock: Any = home._parts.clock
    for name in ("first", "second", "third"):
        home.run_sync(clew.agent(name="orders")(lambda run, prompt: 1), run_id=name)
        clock.advance(1)

    assert (["third", "second", "first"], "third") == ([row["runId"] for row in home.runs()], home.find("@last"))


def test_the_last_run_of_an_empty_home_is_not_found() -> None:
    """`@last` of nothing is an answer, not a crash."""
    assert "unknown_run" == code_of(clew.Home.memory().find, "@last")


# Readers leave everything as it was.


def looks(home: clew.Home, run: str) -> Iterator[object]:
    yield list(home.runs())
    yield home.result(run).snapshot
    yield home.plan(run)
    yield home.verify(run)
    yield list(home.reader.records(run))
    yield list(home.reader.effects(home.reader.see(run).state))


def test_readers_leave_every_byte_and_time(tmp_path: Path) -> None:
    """Promise 11, of a dead run with a torn end beside its files."""
    with living(HOLDS, tmp_path / ".clew") as process:
        process.says()
        process.kill()
    home = clew.Home(tmp_path / ".clew")
    journal = tmp_path / ".clew" / "runs" / f"{RUN}.jsonl"
    journal.write_bytes(journal.read_bytes()[:-7])
    before = snapshot_of(tmp_path)
    for _ in looks(home, RUN):
        pass

    assert before == snapshot_of(tmp_path)


def test_readers_look_while_a_writer_holds_the_lock(tmp_path: Path) -> None:
    """Never a lock: a reader can neither wait for a writer nor make one wait."""
    home = clew.Home(tmp_path / ".clew")
    with living(HOLDS, tmp_path / ".clew") as process:
        process.says()
        seen = [home.verify(RUN)["state"], home.result(RUN).operation.state]

    assert ["running", "running"] == seen


# Accounts.


def test_a_snapshot_is_pure_json_with_the_members_of_the_contract() -> None:
    """Any program in any language reads it; NaN and the like would break the first one that is strict."""
    home = open_run()
    account = home.result(RUN).snapshot

    assert account == json.loads(json.dumps(account, allow_nan=False))
    assert list(CONTRACT) == [name for name in account if name in CONTRACT]
    ours = {"review", "approvals", "integrity", "legs", "effects", "checks", "limits", "loop"}

    assert ours == set(account) - set(CONTRACT)


def test_a_snapshot_holds_all_legs_and_events() -> None:
    """What the earlier legs did is as much part of the run as what this one did."""
    home = open_run()
    agent = payer(Bank().tool(), "1")
    home.settle(RUN, clew.Happened(1), **WHO)
    account = home.resume_sync(RUN, agent).snapshot

    assert ["run", "settle", "resume"] == [leg["purpose"] for leg in account["legs"]]
    assert list(range(1, len(account["trace"]) + 1)) == [event["sequence"] for event in account["trace"]]


def test_what_was_not_measured_is_null() -> None:
    """Nothing is invented: no tokens were reported, so none are zero."""
    metrics = open_run().result(RUN).snapshot["metrics"]

    assert (None, None) == (metrics["tokens"], metrics["costUsd"])


def test_a_snapshot_with_the_agents_tools_knows_that_a_probe_can_tell() -> None:
    """`resumable` is the plan's judgement, and the plan depends on which tools are offered."""
    bank = Bank()
    bank.knows = False
    home, store = mortal_home()
    agent = payer(bank.tool(probe=True), "1")
    store.die_at(2)
    dies(home.run_sync, agent, run_id=RUN)
    store.revive()
    result = home.resume_sync(RUN, agent)

    assert (True, False) == (result.snapshot["resumable"], home.result(RUN).snapshot["resumable"])


def test_an_account_is_of_one_look() -> None:
    """While a writer appends, the trace must not tell of calls that the metrics do not count."""
    home, _ = mortal_home()
    seen: list[dict[str, Any]] = []

    def agent(run: clew.SyncRun, prompt: Any) -> None:
        for _ in range(3):
            run.step("more", lambda: 1)
            seen.append(home.reader.account(RUN, Facts(0)))

    home.run_sync(clew.agent(name="orders")(agent), run_id=RUN)

    assert [(n, n) for n in (1, 2, 3)] == [(len(one["trace"]), one["metrics"]["steps"]["total"]) for one in seen]


def test_the_output_is_there_only_of_a_completed_run() -> None:
    """An `agent_end` whose COMPLETE was cut off is not a success yet."""
    home, store = mortal_home()
    home.run_sync(clew.agent(name="orders")(lambda run, prompt: 42), run_id=RUN)
    lines = store.raw(RUN).splitlines(keepends=True)
    cut = memory(b"".join(lines[:-2]))

    assert (42, None) == (home.result(RUN).output, cut.result(RUN).output)


# Verdicts.


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_of_the_format_verify(example: Path) -> None:
    """Whole journals by another hand."""
    store = MemoryRunStore()
    run_id = json.loads(example.read_bytes().partition(b"\n")[0])["runId"]
    store.implant(run_id, example.read_bytes())

    verdict = clew.Home(".clew", store=store).verify(run_id)

    assert (True, "clean", len(example.read_bytes().splitlines())) == (
        verdict["chained"],
        verdict["tail"]["verdict"],
        verdict["records"],
    )


def test_a_missing_blob_is_named_by_its_digest() -> None:
    """The journal is whole; what it names is not all there."""
    blobs = MemoryBlobStore()
    home, _ = mortal_home(blobs=blobs)
    tool = clew.tool(name="pay", effect="external")(lambda: "x" * 20_000)
    home.run_sync(clew.agent(tools=[tool], name="orders")(lambda run, prompt: len(run.call(tool))), run_id=RUN)
    (digest,) = blobs.kept
    blobs.kept[digest] = b"something else"

    assert [digest] == home.verify(RUN)["missingBlobs"]


def test_a_changed_byte_is_found_with_its_place() -> None:
    """Anywhere in the file: the chain does not forgive."""
    home = open_run()
    data = bytearray(home.reader.store.raw(RUN))  # type: ignore[attr-defined]  # a memory store
    data[300] ^= 1

    with pytest.raises(clew.Corrupt) as caught:
        memory(bytes(data)).verify(RUN)

    assert ("run_state_corrupt", 1) == (caught.value.code, caught.value.facts["line"])


def test_a_foreign_journal_is_read_and_judged() -> None:
    """Reading is mutual: what another program began is shown, verified and planned."""
    line = (
        b'{"version":1,"runId":"orders-1","sequence":1,"eventId":"e1","timestamp":"2026-11-29T14:00:00.000Z",'
        b'"kind":"start","payload":{"configName":"x","schemaVersion":1,"initialPrompt":"go"}}\n'
    )
    home = memory(line)
    plan = home.plan(RUN)

    assert plan is not None
    assert ((), False, "go") == (plan.steps, home.verify(RUN)["chained"], state_of(home).input)
    assert 1 == len(records_of(home))
