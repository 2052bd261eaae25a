"""A doctor's questions to a home."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.checkup import Checkup
from clew.core.compose import Close, Move
from clew.core.outcome import Outcome
from clew.stores.base import Command
from clew.stores.jsonl import FileRunStore
from tests.disk.living import Living, living
from tests.runtime.stage import (
    RUN,
    WHO,
    Bank,
    Forger,
    code_of,
    died_in_the_payment,
    dies,
    mortal_home,
    payer,
    snapshot_of,
    state_of,
)
from tests.stores.lab import FileLab


def ends(run: clew.SyncRun, prompt: Any) -> str:
    return "done"


def raises(run: clew.SyncRun, prompt: Any) -> None:
    raise LookupError


@pytest.fixture
def home(tmp_path: Path) -> clew.Home:
    """A home with one run that is done and one that is paused."""
    home = clew.Home(tmp_path / ".clew")
    home.run_sync(ends, run_id="ended")
    home.run_sync(raises, run_id="paused")
    return home


@contextmanager
def another_process() -> Iterator[tuple[dict[str, Any], Living]]:
    """A process that waits, and the members of a leg of its own."""
    with living("import json; from clew.disk import process; print(json.dumps(process.identity())); input()") as other:
        yield json.loads(other.says()), other


def implanted(tmp_path: Path, forger: Forger) -> clew.Home:
    FileLab(tmp_path).implant(RUN, forger.data)
    return clew.Home(tmp_path / ".clew")


def forged(tmp_path: Path, **owner: Any) -> Forger:
    return Forger(FileRunStore(tmp_path / ".clew"), payer(Bank().tool(), "1"), **owner)


def test_runs_are_counted_and_nothing_is_found_in_sound_ones(home: clew.Home) -> None:
    """One has ended and is believed, the other is read."""
    found = home.checkup()

    assert (2, 1, 0, 0) == (found.runs, found.believed, found.alive, found.worst_exit)
    assert not any(getattr(found, name).count for name in ("unreadable", "gone", "torn", "uncertain", "unnamed"))


def test_looking_changes_nothing(home: clew.Home) -> None:
    """No byte and no modification time (promise 11)."""
    before = snapshot_of(home.path)
    home.checkup()

    assert before == snapshot_of(home.path)


def test_a_home_that_is_not_there_is_not_looked_over(tmp_path: Path) -> None:
    """And none is made."""
    code = code_of(clew.Home(tmp_path / ".clew").checkup)

    assert ("no_home", []) == (code, list(tmp_path.iterdir()))


def test_a_home_in_memory_is_looked_over_too() -> None:
    """It has runs, and no folder."""
    bank = Bank()
    home, _ = died_in_the_payment(bank, happened=True)
    found = home.checkup()

    assert ("memory", None, 1) == (found.survey.path, found.survey.volume, found.gone.count)


def test_the_newest_time_is_of_whichever_run_has_it(home: clew.Home) -> None:
    """A clock that was set back is behind it."""
    times = {run_id: state_of(home, run_id).last_time for run_id in ("ended", "paused")}

    found = home.checkup()

    assert (max(times.values()), times[found.newest_run]) == (found.newest, found.newest)


def test_a_run_that_cannot_be_read_is_found_with_its_place(home: clew.Home) -> None:
    """The next one is looked at all the same."""
    path = home.path / "runs" / "paused.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], lines[1].replace(b"ACCEPT", b"ACCEPY"), *lines[2:]]))

    found = home.checkup()
    (one,) = found.unreadable.first

    assert ("paused", "run_state_corrupt", 12, 12) == (one["run"], one["code"], one["exit"], found.worst_exit)
    assert (2, len(lines[0])) == (one["line"], one["byte"])
    assert (2, 1) == (found.runs, found.believed)


def test_a_head_that_is_ahead_of_its_journal_is_found(home: clew.Home) -> None:
    """Records that were acknowledged are missing, also of a run that has ended."""
    path = home.path / "runs" / "ended.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))

    found = home.checkup()

    assert ["ended"] == [one["run"] for one in found.unreadable.first]


def test_a_run_whose_process_lives_is_alive(tmp_path: Path) -> None:
    """Nothing of it is left open."""
    home = clew.Home(tmp_path / ".clew")
    seen = list[Checkup]()

    def agent(run: clew.SyncRun, prompt: Any) -> None:
        seen.append(home.checkup())

    home.run_sync(agent, run_id=RUN)

    assert (1, 0) == (seen[0].alive, seen[0].gone.count)


def test_a_run_whose_process_is_gone_is_left_open(tmp_path: Path) -> None:
    """A `clew resume` takes it over by proof."""
    found = implanted(tmp_path, forged(tmp_path, pid=1 << 21)).checkup()

    assert [(RUN, 1 << 21)] == [(one["run"], one["pid"]) for one in found.gone.first]


def test_a_run_whose_owner_is_of_another_machine_is_named_with_its_nonce(tmp_path: Path) -> None:
    """Only a person can tell, and needs the nonce to say so."""
    found = implanted(tmp_path, forged(tmp_path, host="elsewhere")).checkup()

    assert [(RUN, "elsewhere", "forged")] == [(one["run"], one["host"], one["nonce"]) for one in found.elsewhere.first]


@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_stopped_process_is_told_from_a_running_one(tmp_path: Path, is_stopped: bool) -> None:
    """It holds the lock and does nothing."""
    with another_process() as (owner, process):
        if is_stopped:
            process.stop()
        found = implanted(tmp_path, forged(tmp_path, **owner)).checkup()

    assert (int(is_stopped), int(not is_stopped)) == (found.stopped.count, found.alive)


def test_an_uncertain_effect_is_found_with_its_tool() -> None:
    """It waits for a person, in a run that is paused for it."""
    bank, (home, _) = Bank(), mortal_home()
    bank.fates = ["fails after"]
    home.run_sync(payer(bank.tool(), "1"), run_id=RUN)

    (one,) = home.checkup().uncertain.first

    assert {"run": RUN, "effects": 1, "tool": "pay", "step": "pay-1"} == one


def test_an_effect_that_is_under_way_is_not_uncertain() -> None:
    """Its process lives, and will say how it ended."""
    home, _ = mortal_home()
    seen = list[Checkup]()

    @clew.tool(effect="external")
    def pay(order: str) -> None:
        seen.append(home.checkup())

    home.run_sync(payer(pay, "1"), run_id=RUN)

    assert (1, 0) == (seen[0].alive, seen[0].uncertain.count)


def test_an_uncertain_effect_of_a_run_that_was_given_up_is_still_found() -> None:
    """It never goes on, but money may have moved."""
    bank, (home, _) = Bank(), mortal_home()
    bank.fates = ["fails after"]
    home.run_sync(payer(bank.tool(), "1"), run_id=RUN)
    home.abort(RUN, **WHO)

    found = home.checkup()

    assert (1, 1) == (found.uncertain.count, found.believed)


def test_a_torn_end_is_found(tmp_path: Path) -> None:
    """The next leg mends it; until then it is to know."""
    forger = forged(tmp_path, pid=1 << 21)
    forger.data += b'{"version":1,'

    found = implanted(tmp_path, forger).checkup()

    assert ({"run": RUN},) == found.torn.first


def test_a_cut_piece_that_a_record_names_is_not_complained_of(tmp_path: Path) -> None:
    """Beside one that a death left between cutting and recording."""
    forger = forged(tmp_path, pid=1 << 21)
    size = len(forger.data)
    forger.data += b'{"version":1,'
    home = implanted(tmp_path, forger)
    clew.Home(home.path, takeover="proven").abort(RUN, **WHO)
    (home.path / "runs" / RUN / f"torn-{size + 7}-0123456789ab").touch(mode=0o600)

    found = home.checkup()

    assert (2, [f"torn-{size + 7}-0123456789ab"]) == (
        len(found.survey.pieces), [one["name"] for one in found.unnamed.first],
    )  # fmt: skip


def test_a_cut_piece_beside_a_journal_that_cannot_be_read_is_named_by_nothing(home: clew.Home) -> None:
    """It may be all that is left of those bytes."""
    (home.path / "runs" / "paused.jsonl").write_bytes(b"no journal\n")
    (home.path / "runs" / "paused" / "torn-7-0123456789ab").touch(mode=0o600)

    found = home.checkup()

    assert (1, ({"run": "paused", "name": "torn-7-0123456789ab"},)) == (found.unreadable.count, found.unnamed.first)


def test_a_command_to_a_run_that_nobody_runs_is_found(home: clew.Home) -> None:
    """Its sender waits for an answer that does not come."""
    home.reader.store.post(Command(1, "pause-1", "paused", "pause", "ann", "lunch"))

    assert ({"run": "paused", "id": "pause-1", "type": "pause"},) == home.checkup().waiting.first


def test_a_command_to_a_living_run_is_on_its_way(tmp_path: Path) -> None:
    """Its writer takes it at the next safe point."""
    with another_process() as (owner, _):
        home = implanted(tmp_path, forged(tmp_path, **owner))
        home.reader.store.post(Command(1, "pause-1", RUN, "pause", "ann", "lunch"))
        found = home.checkup()

    assert (1, 0) == (len(found.survey.commands), found.waiting.count)


@clew.tool
def silent(order: str) -> str:
    raise ConnectionError


@clew.tool(effect="external")
def honest(order: str) -> str:
    raise ConnectionError


def test_a_tool_that_says_nothing_of_its_effect_is_found_in_the_run_that_called_it() -> None:
    """It counts as external for ever, though it may only read."""

    def agent(run: clew.SyncRun, prompt: Any) -> None:
        run.call({"silent": silent, "honest": honest}[prompt], order="1")

    home, _ = mortal_home()
    for name in ("silent", "honest"):
        home.run_sync(agent, name, run_id=name)

    assert ({"tool": "silent", "run": "silent"},) == home.checkup().undeclared.first


def test_the_tools_of_an_agent_are_looked_at_before_they_are_ever_called(home: clew.Home) -> None:
    """Before the first run is the time to declare them."""
    agent = clew.agent(tools=[silent, honest], name="orders")(ends)

    assert ({"tool": "silent", "run": ""},) == home.checkup(agent).undeclared.first


def test_ten_thousand_broken_runs_are_counted_in_bounded_room() -> None:
    """Of each kind the first are kept."""
    home, store = mortal_home()
    for number in range(300):
        store.implant(f"r{number:05}", b"no journal\n" * 3)

    found = home.checkup()

    assert (300, 5) == (found.unreadable.count, len(found.unreadable.first))


def test_a_leg_that_only_settled_leaves_its_run_interrupted_and_named() -> None:
    """Nobody runs it, though its last leg was closed."""
    bank = Bank()
    home, store = mortal_home()
    store.die_at(2)
    dies(home.run_sync, payer(bank.tool(), "1"), run_id=RUN)
    store.revive()
    home.settle(RUN, clew.DidNotHappen(), **WHO)

    assert 1 == home.checkup().gone.count


def test_another_programs_runs_are_counted_and_not_judged(tmp_path: Path) -> None:
    """They go on elsewhere."""
    forger = forged(tmp_path).say(Move("PAUSE", "x"), Close("pause", Outcome("paused", "x")))
    (tmp_path / ".coremind" / "runs").mkdir(parents=True)
    (tmp_path / ".coremind" / "runs" / f"{RUN}.jsonl").write_bytes(forger.data)

    found = clew.Home(tmp_path / ".coremind").checkup()

    assert ("foreign", 1) == (found.survey.standing, found.runs)


def test_a_home_whose_runs_cannot_be_listed_is_looked_over_all_the_same(tmp_path: Path) -> None:
    """A doctor that stops at the first trouble is of no use; that they cannot be is the trouble."""
    home = clew.Home(tmp_path / ".clew")
    home.run_sync(ends, run_id="ended")
    (home.path / "runs").rename(tmp_path / "elsewhere")
    (home.path / "runs").touch()

    found = home.checkup()

    (one,) = found.unreadable.first
    assert ("", 13, 13, 0) == (one["run"], one["exit"], found.worst_exit, found.runs)
    assert [str(home.path / "runs")] == [each["path"] for each in found.survey.misplaced.first]
