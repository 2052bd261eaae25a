"""The journals of CoreMind: read, verified, judged; resume is refused, and its home is opened for reading only."""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from clew.core.folding import fold
from clew.core.resume import Facts, prepare_run_resume
from tests.cases.ward import ACTING, CASES, LOOKING, SETTLING, SICK, Typed, Ward, case, codes_at, knock, untouched
from tests.cli.shell import Shell
from tests.disk.living import HOLDER, living

LEGACY, CURRENT = "run-legacy", "run-current"
FILES = {
    "coremind-0.3.0-legacy-run.jsonl": "69cd9bd66f56e322",
    "coremind-0.3.1-current-correlated.json": "677699c0fb8383ce",
}
WHO = ("--by", "ann", "--reason", "looked")
# `verify --accept-loss` writes as well.
WRITING = [*ACTING, "accept-loss"]


def journals() -> dict[str, bytes]:
    """Both runs, a record a line."""
    current = json.loads(case("coremind-0.3.1-current-correlated.json"))["runRecords"]
    lines = [json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in current]
    return {LEGACY: case("coremind-0.3.0-legacy-run.jsonl"), CURRENT: b"".join(lines)}


def settled_in(folder: Path) -> clew.Home:
    """A home folder with both runs in it."""
    (folder / "runs").mkdir(parents=True)
    for run_id, data in journals().items():
        (folder / "runs" / f"{run_id}.jsonl").write_bytes(data)
    return clew.Home(folder, takeover="operator")


@pytest.fixture(params=[".coremind", ".clew"])
def home(request: pytest.FixtureRequest, shell: Shell, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> clew.Home:
    """Their own home, and one of ours into which somebody has copied them."""
    found = settled_in(shell.folder / request.param)
    monkeypatch.setenv("CLEW_HOME", str(found.path))
    return found


@pytest.fixture
def theirs(shell: Shell, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> clew.Home:
    """Their own home."""
    found = settled_in(shell.folder / ".coremind")
    monkeypatch.setenv("CLEW_HOME", str(found.path))
    return found


def try_all(typed: Typed, run_id: str) -> dict[str, tuple[int, str, bool]]:
    """Every door that would write: exit code, error code, and whether a next step is named."""
    said = {door: knock(typed, door, run_id) for door in ACTING}
    said["accept-loss"] = typed("verify", run_id, "--accept-loss", *WHO, "--json")
    return {door: (done.code, done.error["code"], bool(done.error["next"])) for door, done in said.items()}


@pytest.mark.parametrize(("name", "digest"), FILES.items())
def test_the_files_are_the_ones_that_are_described(name: str, digest: str) -> None:
    """An edited file would prove something else."""
    assert digest == hashlib.sha256(case(name)).hexdigest()[:16]


# Reading.


@pytest.mark.parametrize("run_id", [LEGACY, CURRENT])
def test_a_journal_of_coremind_is_read_record_by_record_and_nothing_is_invented(
    home: clew.Home, typed: Typed, run_id: str
) -> None:
    """#38: old records have no event id and no chain; a reader that makes some up tells what nobody wrote."""
    told = [json.loads(line) for line in knock(typed, "show --log", run_id).out.splitlines()]
    records = list(home.reader.records(run_id))

    assert told == [json.loads(line) for line in journals()[run_id].splitlines()]
    assert {msgspec.UNSET} == {record.event_id for record in records}
    assert {(None, None)} == {(record.chain, record.append) for record in records}


@pytest.mark.parametrize(("run_id", "records"), [(LEGACY, 7), (CURRENT, 13)])
def test_it_is_verified_and_every_look_leaves_it_alone(
    home: clew.Home, typed: Typed, run_id: str, records: int
) -> None:
    """Nothing in it is wrong; that it has no chain is said."""
    looked = set[tuple[int, str]]()
    same = untouched(home.path, lambda: looked.update(codes_at(typed, LOOKING, run_id)))

    found = knock(typed, "verify", run_id).json

    assert (True, {(0, "")}) == (same, looked)
    assert (records, False, "clean") == (found["records"], found["chained"], found["tail"]["verdict"])


def test_both_are_listed_as_what_they_are(home: clew.Home, shell: Shell) -> None:
    """As a real command: a run that nobody of ours runs is neither about to start nor running."""
    listed, began = shell("ls", "--home", str(home.path)), "another program began it"

    assert (0, "") == (listed.code, listed.err)
    assert [line for line in listed.out.splitlines() if not line.startswith("  ")] == [
        f"FOREIGN  run-current   {began} and recorded: finished (succeeded); 1 call, last record 2026-08-20 00:00",
        f"FOREIGN  run-legacy    {began} and did not record how it stands; 0 calls, last record 2026-08-16 00:00",
    ]
    assert "next: continue it with the program that began it" in listed.out


# The legacy run.


def test_the_legacy_run_is_not_completed_and_has_no_result(home: clew.Home, typed: Typed) -> None:
    """It has no finish and no operation; that its last step ended well is no end of the run."""
    row = home.reader.row(LEGACY)
    shown = knock(typed, "show", LEGACY).json

    with pytest.raises(clew.Refused) as caught:
        home.result(LEGACY)

    assert ("unknown", "foreign", "") == (row["state"], row["shown"], row["foreign"])
    assert (None, False, 1) == (shown["operation"], shown["resumable"], shown["metrics"]["turns"])
    assert "foreign_run" == caught.value.code


def test_a_step_that_was_started_twice_is_no_proof_of_one_completed_effect(home: clew.Home) -> None:
    """`loop-execute` began and ended twice in it; the id of a step says nothing of what happened in the world."""
    state = home.reader.see(LEGACY).state
    plan = home.plan(LEGACY)

    assert ([], []) == (state.completed_steps(), [call.key for call in state.calls.values()])
    assert plan is not None
    assert [] == [step for step in plan.steps if step.decision == "skip"]


def test_an_open_effect_in_such_a_step_waits_for_a_person(home: clew.Home) -> None:
    """A call between the two ends of the step stays open, however often the step ended well."""
    data = journals()[LEGACY]
    at, more = '"timestamp":"2026-08-16T00:00:01.000Z"', list[str]()
    call = '"stepId":"loop-execute","callId":"call-1","tool":"bash","idempotencyKey":"run-legacy:loop-execute:call-1"'
    for event in (
        f'{{"type":"tool_call","agent":"main","args":{{}},{call}}}',
        f'{{"type":"effect_receipt","status":"started",{call}}}',
        '{"type":"step_end","stepId":"loop-execute","ok":true}',
        '{"type":"step_end","stepId":"loop-execute","ok":true}',
    ):
        number = 8 + len(more)
        head = f'{{"version":1,"runId":"{LEGACY}","sequence":{number},{at},"kind":"event"'
        more.append(f'{head},"payload":{{"event":{event}}}}}\n')
    Path(home.reader.store.locate(LEGACY)).write_bytes(data + "".join(more).encode())

    plan = home.plan(LEGACY)

    assert plan is not None
    assert [("loop-execute", "review")] == [(step.step_id, step.decision) for step in plan.steps]


def test_the_legacy_run_is_refused_at_every_door_that_writes(home: clew.Home, typed: Typed) -> None:
    """Who began a journal continues it; the refusal says so and what to do, and changes nothing."""
    said = dict[str, tuple[int, str, bool]]()

    same = untouched(home.path, lambda: said.update(try_all(typed, LEGACY)))

    assert (True, dict.fromkeys(WRITING, (4, "foreign_run", True))) == (same, said)


def test_a_typed_resume_says_so_before_it_asks_for_an_agent(home: clew.Home, shell: Shell) -> None:
    """As a real command: no agent that could be named would help."""
    done = shell("resume", LEGACY, "--home", str(home.path))

    assert (4, "") == (done.code, done.out)
    assert "clew: run 'run-legacy' was begun by another program [foreign_run]" in done.err
    assert "next: Continue it with the program that began it" in done.err


def test_an_accepted_configuration_does_not_open_it_either(home: clew.Home, typed: Typed) -> None:
    """Its fingerprint is the word `legacy`, which nothing equals; but a waiver is for runs of ours."""
    state = home.reader.see(LEGACY).state

    done = typed("resume", LEGACY, "--agent", "agent.py:settle", "--accept-config", *WHO, "--json")

    assert ("legacy", 4, "foreign_run") == (state.start["configFingerprint"], done.code, done.error["code"])


def test_the_library_refuses_it_as_well(home: clew.Home) -> None:
    """Whose it is comes first: before its input, its configuration or its effects are compared with anything."""
    deeds: list[Any] = [
        lambda: home.resume_sync(LEGACY, SETTLING, signals=False),
        lambda: home.ensure_sync(SETTLING, None, run_id=LEGACY, signals=False),
        lambda: home.plan(LEGACY, SETTLING),
        lambda: home.settle(LEGACY, clew.DidNotHappen(), by="ann", reason="looked", call="loop-execute"),
        lambda: home.abort(LEGACY, by="ann", reason="looked"),
        lambda: home.pause(LEGACY, by="ann", reason="looked"),
        lambda: home.unlock(LEGACY, nonce="n", by="ann", reason="looked"),
        lambda: home.accept_loss(LEGACY, by="ann", reason="looked"),
    ]
    codes = set[str]()

    def knock_all() -> None:
        for deed in deeds:
            with pytest.raises(clew.Refused) as caught:
                deed()
            codes.add(caught.value.code)

    same = untouched(home.path, knock_all)

    assert (True, {"foreign_run"}) == (same, codes)


# The current run.


def test_the_current_run_is_told_as_its_program_left_it(home: clew.Home, typed: Typed) -> None:
    """It recorded a finish and no COMPLETE: what it said is repeated, and no success is concluded from it."""
    row, result = home.reader.row(CURRENT), home.result(CURRENT)
    (effect,) = knock(typed, "show --effects", CURRENT).json

    assert ("finished", "succeeded", "foreign") == (row["foreign"], row["reason"], row["shown"])
    assert ("running", None, False) == (result.operation.state, result.output, result.snapshot["resumable"])
    assert ("write", "committed", "run-current:step-current:call-current") == (
        effect["tool"], effect["status"], effect["idempotencyKey"],
    )  # fmt: skip


def test_its_committed_effect_without_an_output_is_not_skipped(home: clew.Home) -> None:
    """Promise 2: that it happened is known, what it returned is not."""
    state = fold(home.reader.store.read(CURRENT), CURRENT)
    state.finish = None

    plan = prepare_run_resume(state, None, Facts(at_ms=0))

    assert ("call-current", "review", "committed_effect_pending") == next(
        (step.call_id, step.decision, step.reason) for step in plan.steps
    )


def test_the_current_run_is_refused_at_every_door_that_writes(home: clew.Home, typed: Typed) -> None:
    """#43, #64: it has a finish, so it is finished before it is anybody's; for all else it is not ours."""
    said = dict[str, tuple[int, str, bool]]()

    same = untouched(home.path, lambda: said.update(try_all(typed, CURRENT)))

    finished = {"resume": (4, "run_already_finished", True), "resume --dry-run": (4, "run_already_finished", True)}
    assert (True, dict.fromkeys(WRITING, (4, "foreign_run", True)) | finished) == (same, said)


# The home of CoreMind.


def test_no_run_begins_in_the_home_of_coremind(theirs: clew.Home, shell: Shell) -> None:
    """As a real command: not a byte of ours among files that another program takes for its own."""
    before = shell.bytes_and_times()

    begun = shell("run", "agent.py:settle", "7", "--run-id", "new-1", "--home", str(theirs.path), "--json")
    taken = shell("run", "agent.py:settle", "7", "--run-id", LEGACY, "--home", str(theirs.path), "--json")

    assert [(4, "foreign_home"), (4, "foreign_home")] == [(each.code, each.error["code"]) for each in (begun, taken)]
    assert "Continue its runs with CoreMind" in begun.error["next"]
    assert (before, []) == (shell.bytes_and_times(), shell.payments)


def test_a_link_to_the_home_of_coremind_is_that_home(theirs: clew.Home, typed: Typed) -> None:
    """What counts is the folder that would be written."""
    link = theirs.path.with_name("runs-of-the-other")
    link.symlink_to(theirs.path)

    done = typed("run", "agent.py:settle", "7", "--home", str(link), "--json")

    assert (4, "foreign_home") == (done.code, done.error["code"])


@pytest.mark.parametrize("door", [door for door in ACTING if door != "resume --dry-run"])
def test_a_run_of_ours_in_the_home_of_coremind_is_read_and_never_written(
    theirs: clew.Home, shell: Shell, typed: Typed, door: str
) -> None:
    """CoreMind reads our journals, so one may be put there; it is continued where it was begun."""
    ours = Ward(shell.folder)
    shutil.copytree(ours.journal.parent, theirs.path / "runs", dirs_exist_ok=True)
    said = list[Any]()

    same = untouched(theirs.path, lambda: said.extend([knock(typed, "verify", SICK), knock(typed, door, SICK)]))

    verified, refused = said
    expected = {"settle": "nothing_to_settle", "unlock": "nothing_to_unlock", "pause": "run_not_living"}
    assert (True, 0, True) == (same, verified.code, verified.json["chained"])
    assert (4, expected.get(door, "foreign_home")) == (refused.code, refused.error["code"])


def test_while_coremind_has_a_run_nothing_is_put_into_an_inbox(theirs: clew.Home, typed: Typed) -> None:
    """It does not read commands of ours; a file there would only be litter that looks like an order."""
    codes = list[tuple[int, str]]()

    def command() -> None:
        with living(HOLDER, theirs.reader.store.locate(LEGACY)) as holder:
            holder.says()
            codes.extend(codes_at(typed, ["pause", "abort", "settle", "show"], LEGACY))

    same = untouched(theirs.path, command)

    assert (True, [(0, ""), (4, "foreign_run")]) == (same, sorted(codes))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_home_of_coremind_that_may_not_be_written_is_read_all_the_same(theirs: clew.Home, typed: Typed) -> None:
    """Reading needs no right to write, not even for a lock."""
    for path in (theirs.path / "runs", theirs.path):
        path.chmod(0o500)

    found = codes_at(typed, LOOKING, LEGACY)

    assert {(0, "")} == found


def test_the_cases_are_where_they_are_said_to_be() -> None:
    """Without them everything above is skipped; whoever has the folder must not miss that."""
    if not CASES.is_dir():
        pytest.skip("the real files of the cases are not on this machine; CLEW_CASES names their folder")

    assert [] == [name for name in FILES if not (CASES / name).is_file()]
