"""Kind K7 of the reports: locks and concurrent writers, by real processes. One row a group, its id in front."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.stores.jsonl import FileRunStore
from tests.cases.ward import SETTLING, SICK, Typed, Ward, codes_at, knock, untouched
from tests.cli.shell import Live, Shell
from tests.disk.living import Living, living
from tests.runtime.stage import Forger


@pytest.fixture
def ward(shell: Shell) -> Ward:
    return Ward(shell.folder)


@pytest.fixture
def dead(shell: Shell) -> Shell:
    """A run whose process was killed while the payment was under way."""
    shell.raise_flag("die")
    assert shell("run", "agent.py:settle", "7", "--run-id", "dead-1").code == -signal.SIGKILL
    return shell


@contextmanager
def held(shell: Shell) -> Iterator[Live]:
    """A run in the middle of a call, which ends when the test says so; a stopped one goes on first."""
    live = shell.holding()
    try:
        yield live
    finally:
        live.signal(signal.SIGCONT)
        live.end()


def agent_of(shell: Shell) -> clew.Agent:
    """The agent of the folder, as far as a plan needs it."""

    @clew.tool(effect="external")
    def pay(call: clew.Call, order: str, cents: int) -> dict[str, str]:
        return {"transfer": f"T-{order}"}

    return clew.agent(tools=[pay], name="settle")(lambda run, prompt: run.call(pay, order=prompt, cents=4200))


# C66: the lock of a dead process blocks the session after a restart.


def test_a_library_refuses_a_dead_owners_run_with_owner_proof_and_what_to_do(dead: Shell) -> None:
    """C66: by default nobody is taken over; who reads the error knows whose it was and how to go on."""
    home = clew.Home(dead.folder / ".clew")
    caught = list[clew.Held]()

    def resume() -> None:
        with pytest.raises(clew.Held) as held:
            home.resume_sync("dead-1", agent_of(dead), signals=False)
        caught.append(held.value)

    same = untouched(home.path, resume)
    owner = caught[0].facts["owner"]

    assert (True, "takeover_refused", 11) == (same, caught[0].code, caught[0].exit_code)
    assert {"yes"} == {proof["answer"] for proof in caught[0].facts["proofs"]}
    assert (True, True) == (owner["pid"] > 0, owner["startTick"] > 0)
    assert f"pid {owner['pid']} on {owner['host']}" in caught[0].message
    assert "`clew resume dead-1`" in caught[0].next


def test_a_typed_resume_is_the_operators_act_and_is_journaled_with_its_proof(dead: Shell) -> None:
    """C66: a person at the keyboard goes on without ceremony, and later it can be seen by what right."""
    done = dead("resume", "dead-1")
    log = [json.loads(line) for line in dead("show", "dead-1", "--log", "--json").out.splitlines()]
    proofs = next(record["payload"]["lockProof"] for record in log if record["kind"] == "resume")

    assert (21, ["7"]) == (done.code, dead.payments)
    assert ["kernel_lock", "local_file_system", "same_inode", "process_gone"] == [proof["proof"] for proof in proofs]
    assert {"yes"} == {proof["answer"] for proof in proofs}
    assert "no process" in done.err


def test_unlock_needs_the_nonce_a_name_and_a_reason(dead: Shell, typed: Typed) -> None:
    """C66: a person's word frees only the leg that was looked at (below: and never one whose writer has the lock)."""
    nonce = json.loads(dead("ls", "--json").out)[0]["leg"]["nonce"]
    journal = dead.folder / ".clew" / "runs" / "dead-1.jsonl"
    wrong = typed("unlock", "dead-1", "--nonce", "x", "--by", "ann", "--reason", "gone", "--json")
    nobody = typed("unlock", "dead-1", "--nonce", nonce, "--by", " ", "--reason", "gone", "--json")
    before = journal.read_bytes()
    right = typed("unlock", "dead-1", "--nonce", nonce, "--by", "ann", "--reason", "gone", "--json")

    refused = [(done.code, done.error["code"]) for done in (wrong, nobody)]
    assert [(4, "stale_nonce"), (2, "review_incomplete")] == refused
    assert (0, True) == (right.code, journal.read_bytes().startswith(before))
    assert b'"fact":"gone","by":"ann"' in journal.read_bytes()[len(before) :].replace(b'"answer":"yes",', b"")


@pytest.mark.parametrize("left", ["", "{", '{"pid":999999,"createdAt":"2026-08-16T00:00:00.000Z","nonce":"n"}'])
def test_a_lock_file_that_another_program_left_behind_blocks_nothing_and_stays(ward: Ward, left: str) -> None:
    """C66, #32 as DESIGN §13 has it: exclusion is the kernel's; such a file is no lock, and not ours to remove."""
    stale = ward.journal.with_name(f"{SICK}.jsonl.lock")
    stale.write_text(left, "utf-8")

    result = ward.resume()

    assert ("completed", left) == (result.operation.state, stale.read_text("utf-8"))


# C67 and C68: a lock error is its own error, and waiting ends while the holder goes on.


def test_every_command_says_that_the_run_is_held_and_looking_goes_on(shell: Shell) -> None:
    """C67: nine runs failed with other, misleading errors behind one lock; here each says who holds it."""
    who = ("--by", "ann", "--reason", "looked")
    with held(shell) as live:
        waiting = [
            shell.start(*words, "--json")
            for words in (
                ("resume", "held", "--agent", "agent.py:patient"),
                ("unlock", "held", "--nonce", "n", *who),
                ("verify", "held", "--accept-loss", *who),
            )
        ]
        looks = [shell(*words).code for words in (("ls",), ("show", "held"), ("verify", "held"))]
        ended = [each.end("") for each in waiting]

    assert [0, 0, 0] == looks
    assert [(11, "run_state_locked", live.process.pid)] * 3 == [
        (done.code, done.error["code"], done.error["facts"]["owner"]["pid"]) for done in ended
    ]
    assert (0, ["7"]) == (live.process.returncode, shell.payments)


@pytest.mark.parametrize("stopped", [False, True])
def test_a_hold_that_is_longer_than_the_wait_names_its_holder(shell: Shell, stopped: bool) -> None:
    """C68: whoever gives up waiting must know for whom; a process that is merely stopped loses nothing either."""
    store = FileRunStore(shell.folder / ".clew")
    with held(shell) as live:
        if stopped:
            live.signal(signal.SIGSTOP)
            os.waitid(os.P_PID, live.process.pid, os.WSTOPPED | os.WNOWAIT)
        before = (shell.folder / ".clew" / "runs" / "held.jsonl").read_bytes()
        with pytest.raises(clew.Held) as caught:
            store.open("held", wait_s=0.1)
        after = (shell.folder / ".clew" / "runs" / "held.jsonl").read_bytes()

    facts: dict[str, Any] = caught.value.facts
    assert (live.process.pid, "stopped" if stopped else "alive") == (facts["owner"]["pid"], facts["state"])
    assert (True, True) == (facts["since"].endswith("Z"), facts["since"] in caught.value.message)
    assert ("Let that process go on" in caught.value.next) == stopped
    assert (before, 0, ["7"]) == (after, live.process.returncode, shell.payments)


# C70: the dead owner's number belongs to another program now.


def forged(ward: Ward, **owner: Any) -> clew.Home:
    """A run whose last leg is open and names this very process, with what is said otherwise."""
    me = FileRunStore(ward.home.path).identity()
    forger = Forger(ward.home.reader.store, SETTLING, "forged-1", **{**me, **owner})
    ward.implant("forged-1", forger.data)
    return clew.Home(ward.home.path, takeover="proven")


@pytest.mark.parametrize(
    ("changed", "fact"), [({"startTick": 1}, "with start tick 1"), ({"bootId": "an-earlier-boot"}, "is over, this is")]
)
def test_a_number_that_another_program_has_now_is_no_owner(ward: Ward, changed: dict[str, Any], fact: str) -> None:
    """C70: a process is its number, its start and its boot; else the lock looks alive for ever."""
    home = forged(ward, **changed)
    shown = home.reader.row("forged-1")["shown"]

    result = home.resume_sync("forged-1", clew.agent(name="settle")(said), signals=False)
    resumed = next(record for record in home.reader.records("forged-1") if record.kind == "resume")
    gone = next(proof for proof in resumed.payload["lockProof"] if proof["proof"] == "process_gone")

    assert ("interrupted", "completed", "yes") == (shown, result.operation.state, gone["answer"])
    assert fact in gone["fact"]


def said(run: clew.SyncRun, prompt: Any) -> str:
    """An agent with nothing to do."""
    return "done"


def test_the_same_number_and_start_is_the_owner_even_without_a_lock(ward: Ward) -> None:
    """C70: the other side of it: this process lives, so nothing is taken from it by a standing order."""
    home = forged(ward)
    found = list[str]()

    def resume() -> None:
        with pytest.raises(clew.Held) as caught:
            home.resume_sync("forged-1", SETTLING, signals=False)
        found.extend([caught.value.code, caught.value.next])

    same = untouched(home.path, resume)

    assert (True, "owner_not_proven", True) == (same, found[0], "clew unlock forged-1 --nonce forged" in found[1])


# C71: two processes append to one session.

RACER = """
import sys
import clew

def once(run, prompt):
    return prompt

print("ready", flush=True)
sys.stdin.readline()
try:
    result = clew.Home(sys.argv[1]).run_sync(once, sys.argv[2], run_id="race-1", signals=False)
    print(result.operation.state, flush=True)
except clew.ClewError as error:
    print(error.code, flush=True)
"""


def race(folder: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """Two processes begin the same run at once; what each says, and what stands in the file."""
    with living(RACER, folder, "one") as one, living(RACER, folder, "two") as two:
        both: list[Living] = [one, two]
        assert ["ready", "ready"] == [each.says() for each in both]
        for each in both:
            each.go_on()
        told = sorted(each.says() for each in both)
    lines = (folder / "runs" / "race-1.jsonl").read_bytes().split(b"\n")[:-1]
    return told, [json.loads(line) for line in lines]


def test_of_two_processes_that_begin_one_run_the_second_is_refused_before_its_first_byte(tmp_path: Path) -> None:
    """C71: else two stories stand in one file and nobody notices."""
    told, records = race(tmp_path / ".clew")

    assert ["completed", "run_id_conflict"] == told
    assert 1 == len({record["eventId"].rpartition("-")[0] for record in records})
    assert list(range(1, len(records) + 1)) == [record["sequence"] for record in records]


@pytest.mark.journeys
@pytest.mark.parametrize("time", range(20))
def test_it_is_refused_however_close_they_come(tmp_path: Path, time: int) -> None:
    """C71: the same twenty times."""
    told, records = race(tmp_path / ".clew")

    assert (["completed", "run_id_conflict"], 1) == (told, sum(record["kind"] == "start" for record in records))


OPENER = """
import sys
from pathlib import Path
import clew
from clew.stores.jsonl import FileRunStore

print("ready", flush=True)
sys.stdin.readline()
try:
    writer = FileRunStore(Path(sys.argv[1])).open("sick-1", wait_s=0.0)
    print("open", flush=True)
except clew.ClewError as error:
    print(error.code, flush=True)
sys.stdin.readline()
"""


def test_of_two_processes_that_open_one_run_the_second_is_refused_before_its_first_byte(ward: Ward) -> None:
    """C71: the same for a run that is there already."""
    with living(OPENER, ward.home.path) as one, living(OPENER, ward.home.path) as two:
        both = [one, two]
        assert ["ready", "ready"] == [each.says() for each in both]
        for each in both:
            each.go_on()
        told = sorted(each.says() for each in both)

    assert (["open", "run_state_locked"], ward.sound) == (told, ward.journal.read_bytes())


# C72: two writers give two records the same sequence.


def test_a_second_writer_without_a_lock_stops_the_first_at_its_next_append(ward: Ward) -> None:
    """C72: as if the lock did not work: what the other wrote is seen before one more byte, and on reading."""
    path = ward.path("meddled-1")

    written = list[bytes]()

    def meddle() -> str:
        # The number of the last record again, at another time: another writer that began at the same place.
        written.extend(path.read_bytes().splitlines())
        written.append(written[-1].replace(b'"timestamp":"20', b'"timestamp":"19'))
        with path.open("ab") as journal:
            journal.write(written[-1] + b"\n")
        return "done"

    tool = clew.tool(effect="external")(meddle)
    agent = clew.agent(tools=[tool], name="meddled")(lambda run, prompt: run.call(tool))
    with pytest.raises(clew.Storage) as caught:
        ward.home.run_sync(agent, run_id="meddled-1", signals=False)
    with pytest.raises(clew.Corrupt) as read:
        ward.home.verify("meddled-1")

    assert ("journal_replaced", 13) == (caught.value.code, caught.value.exit_code)
    assert ("run_state_corrupt", len(written)) == (read.value.code, read.value.facts["line"])
    assert written == path.read_bytes().splitlines()


# C73: two publishers share a temp file.

PUBLISHER = """
import sys
from pathlib import Path
from clew.disk.files import publish

path, word, times = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(times):
    publish(path, word.encode() * 5000)
print("done", flush=True)
"""


def publish_at_once(folder: Path, times: int) -> set[bytes]:
    """Two processes publish under one name; every content that a reader finds there meanwhile."""
    path, found = folder / "head.json", set[bytes]()
    path.write_bytes(b"old" * 5000)
    with living(PUBLISHER, path, "one", times) as one, living(PUBLISHER, path, "two", times) as two:
        assert ["ready", "ready"] == [one.says(), two.says()]
        one.go_on()
        two.go_on()
        while one.process.poll() is None or two.process.poll() is None:
            found.add(path.read_bytes())
        assert ["done", "done"] == [one.says(), two.says()]
    found.add(path.read_bytes())
    return found


@pytest.mark.parametrize("times", [20, pytest.param(200, marks=pytest.mark.journeys)])
def test_two_publishers_at_once_never_show_a_reader_half_a_file(tmp_path: Path, times: int) -> None:
    """C73: each has a temp file of its own, made exclusively; what has the name is always whole."""
    found = publish_at_once(tmp_path, times)

    assert found <= {word * 5000 for word in (b"old", b"one", b"two")}
    assert ["head.json"] == [path.name for path in tmp_path.iterdir()]


# C74: resume writes into another session's file.


@pytest.mark.parametrize("head", ["its own", "the other's", "none"])
def test_a_journal_under_another_runs_name_is_refused_at_every_door(ward: Ward, typed: Typed, head: str) -> None:
    """C74: a copy over the wrong name must not be continued as if it were that run."""
    well = ward.run_well()
    ward.spoil(well.read_bytes())
    if head == "the other's":
        shutil.copy(well.with_suffix("") / "head.json", ward.journal.with_suffix("") / "head.json")
    elif head == "none":
        ward.forget_head()
    found = set[tuple[int, str]]()

    same = untouched(ward.home.path, lambda: found.update(codes_at(typed)))

    assert (True, {(12, "run_state_corrupt")}) == (same, found)
    assert "it is not record 1 of run 'sick-1'" in knock(typed, "verify").error["facts"]["why"]
