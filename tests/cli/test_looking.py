from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.chain import genesis
from clew.core.codec import encode_append
from clew.core.events import tool_result
from clew.core.records import Draft, Record
from tests.cli.shell import Done, Shell
from tests.histories import Scribe, completed, facts, read, returned, started

Typed = Callable[..., Done]
NOW = "2026-11-29T14:00:00.000Z"


@clew.tool(effect="external")
def pay(order: str, token: str = "") -> str:
    if order == "boom":
        raise ConnectionError("the line is dead")
    return f"T-{order}"


def settle(run: clew.SyncRun, orders: list[str]) -> list[str]:
    return [run.call(pay, order=order) for order in orders]


@pytest.fixture
def home(tmp_path: Path) -> clew.Home:
    """A home with a run that is done and one that waits."""
    made = clew.Home(tmp_path / ".clew")
    made.run_sync(settle, ["1", "2"], run_id="aaa-1")
    made.run_sync(settle, ["1", "boom"], run_id="bbb-1")
    return made


def test_all_runs_are_listed_the_last_first(home: clew.Home, typed: Typed) -> None:
    """The one that somebody is looking for stands on top."""
    done = typed("ls")

    first, *rest = done.out.splitlines()
    assert (0, "") == (done.code, done.err)
    assert first.startswith('PAUSED     bbb-1  ["1","boom"]   an effect needs a person')
    assert "  1 effect uncertain: pay order=boom (started " in rest[1]
    assert rest[-1].startswith('COMPLETED  aaa-1  ["1","2"]   2 calls, done ')


def test_a_list_as_json_is_one_array_of_rows(home: clew.Home, typed: Typed) -> None:
    """With the arguments of what waits, as recorded."""
    rows = typed("ls", "--json").json

    assert [("bbb-1", "paused"), ("aaa-1", "completed")] == [(row["runId"], row["shown"]) for row in rows]
    assert [{"order": "boom"}] == [effect["arguments"] for effect in rows[0]["waiting"]]


@pytest.mark.parametrize(
    "words",
    [
        ("ls",), ("ls", "--json"), ("show", "aaa"), ("show", "bbb", "--json"), ("show", "aaa", "--log"),
        ("show", "bbb", "--log", "-f"), ("show", "bbb", "--effects"), ("verify",), ("verify", "aaa"),
        ("settle", "bbb"), ("resume", "aaa"), ("unlock", "aaa", "--nonce", "x", "--by", "ann", "--reason", "why"),
    ],
)  # fmt: skip
def test_looking_and_being_refused_leave_every_byte_and_time_as_it_was(
    home: clew.Home, typed: Typed, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Promise 11; a look at a run must never be what broke it."""
    shell = Shell(tmp_path)
    before = shell.bytes_and_times()

    typed(*words)

    assert before == shell.bytes_and_times()


def test_looking_imports_no_framework_and_not_the_agent(shell: Shell) -> None:
    """The agent may be broken, gone, or slow to import; looking must still work."""
    shell("run", "agent.py:settle", "1")
    (shell.folder / "agent.py").write_text("raise SystemExit('loaded')", "utf-8")

    codes = [shell(*words).code for words in [("ls",), ("show", "@last"), ("verify",)]]

    assert [0, 0, 0] == codes


def test_a_run_is_shown_on_a_page(home: clew.Home, typed: Typed) -> None:
    """State first, next step last."""
    lines = typed("show", "bbb").out.splitlines()

    assert lines[0].startswith("PAUSED  bbb-1")
    assert any(line.startswith("  journal  ") for line in lines)
    assert "  or:   clew resume bbb  asks its probe or repeats it, where declared so" == lines[-2]


def test_a_run_as_json_is_its_snapshot(home: clew.Home, typed: Typed) -> None:
    """The same account as every other door gives."""
    done = typed("show", "aaa", "--json")

    assert home.result("aaa-1").snapshot == done.json


def test_effects_are_shown_with_their_arguments(home: clew.Home, typed: Typed) -> None:
    """As words and as JSON."""
    shown, told = typed("show", "bbb", "--effects"), typed("show", "bbb", "--effects", "--json")

    assert ["step", "pay-1", "key", "pay-2", "key"] == [line.split()[0] for line in shown.out.splitlines()]
    assert [{"order": "1"}, {"order": "boom"}] == [effect["arguments"] for effect in told.json]


def test_a_log_has_every_record(home: clew.Home, typed: Typed) -> None:
    """As words one line each at least, as JSON exactly one."""
    shown, told = typed("show", "aaa", "--log"), typed("show", "aaa", "--log", "--json")

    sequences = list(range(1, home.verify("aaa")["records"] + 1))
    assert sequences == [int(line[:5]) for line in shown.out.splitlines() if line[:5].strip()]
    assert len(sequences) == len(told.out.splitlines())


def test_a_secret_stays_redacted_wherever_it_is_shown(tmp_path: Path, typed: Typed) -> None:
    """What was kept out of the journal cannot come back on a screen, and nothing reads the true arguments."""
    secret = "ghp_" + "a1B2" * 9
    agent = clew.agent(lambda run, prompt: run.call(pay, order="boom", token=secret), name="leaky")
    clew.Home(tmp_path / ".clew").run_sync(agent, "x", run_id="ccc-1")

    said = [typed(*words).out for words in [("ls",), ("show", "ccc", "--effects"), ("show", "ccc", "--log", "--json")]]

    assert [(False, True)] * 3 == [(secret in text, "token" in text) for text in said]


def test_a_log_is_followed_until_nobody_writes_any_more(shell: Shell) -> None:
    """Watching a living run must show its end, and then stop by itself."""
    live = shell.holding()
    follower = shell.start("show", "held", "--log", "--follow")
    assert follower.process.stdout is not None
    first = follower.process.stdout.readline()
    live.end()
    done = follower.end("")

    assert (0, "    1") == (done.code, first[:5])
    assert "finished: succeeded" in done.out


@pytest.mark.parametrize("words", [("ls",), ("verify",), ("session", "ls"), ("session", "verify")])
def test_an_empty_home_is_said_to_be_empty(
    home: clew.Home, typed: Typed, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """An empty answer is an answer; the words go beside it."""
    (tmp_path / "empty" / "runs").mkdir(parents=True)

    done, told = typed(*words, "--home", "empty"), typed(*words, "--home", "empty", "--json")

    assert (0, "", []) == (done.code, done.out, told.json)
    assert f"no {'session' if 'session' in words else 'run'}s yet" in done.err


@pytest.mark.parametrize(
    "words", [("ls",), ("show", "@last"), ("verify",), ("resume", "x"), ("pause", "x"), ("abort", "x")]
)
def test_without_a_home_nothing_is_made(typed: Typed, tmp_path: Path, words: tuple[str, ...]) -> None:
    """10; a typing mistake must not leave a folder behind."""
    done = typed(*words, "--json")

    assert (10, "no_home", []) == (done.code, done.error["code"], list(tmp_path.iterdir()))


def test_the_folder_around_a_home_is_not_the_home_but_the_hint_says_so(
    home: clew.Home, typed: Typed, tmp_path: Path
) -> None:
    """Everybody tries it once."""
    done = typed("ls", "--home", str(tmp_path))

    assert (10, f"next: Name the folder itself: --home {tmp_path / '.clew'}") == (done.code, done.err.splitlines()[1])


def test_the_flag_comes_before_the_environment_and_that_before_the_search(
    home: clew.Home, typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three ways to say it, one order."""
    for name in ("by_flag", "by_environment"):
        clew.Home(tmp_path / name).run_sync(settle, [], run_id=name)
    found = typed("ls", "--json").json
    monkeypatch.setenv("CLEW_HOME", str(tmp_path / "by_environment"))
    named, flagged = typed("ls", "--json").json, typed("ls", "--json", "--home", str(tmp_path / "by_flag")).json

    assert ["bbb-1", "by_environment", "by_flag"] == [rows[0]["runId"] for rows in (found, named, flagged)]


def test_no_such_run_is_10_and_too_many_are_2(home: clew.Home, typed: Typed) -> None:
    """An id part must mean exactly one run."""
    none, many = typed("show", "zzz", "--json"), typed("show", "1", "--json")

    assert [(10, "unknown_run"), (2, "ambiguous_run_id")] == [(each.code, each.error["code"]) for each in (none, many)]


def _flip(home: clew.Home, run_id: str, at: int = 600) -> None:
    journal = Path(home.reader.store.locate(run_id))
    data = bytearray(journal.read_bytes())
    data[at] ^= 1
    journal.write_bytes(data)


def test_a_flipped_byte_is_found_and_named(home: clew.Home, typed: Typed) -> None:
    """12, with line and byte, for one run and for all; the others are still said to be well."""
    _flip(home, "aaa-1")

    one, every, told = typed("verify", "aaa", "--json"), typed("verify"), typed("verify", "--json")

    assert [12, 12, 12] == [one.code, every.code, told.code]
    assert one.error["facts"]["line"] == 1
    assert ["CORRUPT", "next:", "OK"] == [line.split()[0] for line in every.out.splitlines()]
    assert [True, False] == ["error" in verdict for verdict in told.json]


def test_a_journal_that_may_not_be_opened_is_not_said_to_be_damaged(home: clew.Home, typed: Typed) -> None:
    """Whoever reads CORRUPT looks for a copy; here only access is missing, and the exit code says the same."""
    journal = Path(home.reader.store.locate("aaa-1"))
    journal.rename(journal.with_suffix(".kept"))
    journal.symlink_to(journal.with_suffix(".kept"))

    done = typed("verify")

    assert (4, ["UNREADABLE", "next:", "OK"]) == (done.code, [line.split()[0] for line in done.out.splitlines()])


def test_a_run_that_cannot_be_read_is_a_row_like_any_other(home: clew.Home, typed: Typed) -> None:
    """One damaged journal must not hide all the others."""
    _flip(home, "bbb-1")
    head = Path(home.reader.store.locate("bbb-1")).with_suffix("") / "head.json"
    head.unlink()

    done = typed("ls")

    assert 0 == done.code
    assert "UNREADABLE  bbb-1" in done.out
    assert "next: clew verify bbb" in done.out
    assert "COMPLETED   aaa-1" in done.out


def test_a_missing_answer_is_damage_too(tmp_path: Path, typed: Typed) -> None:
    """The journal alone does not replay."""
    made = clew.Home(tmp_path / ".clew")
    made.run_sync(clew.agent(lambda run, _: run.step("long", lambda: "x" * 40_000), name="long"), run_id="long-1")
    for blob in (tmp_path / ".clew" / "blobs").rglob("*"):
        if blob.is_file():
            blob.unlink()

    one, every = typed("verify", "long"), typed("verify")

    assert [12, 12] == [one.code, every.code]
    assert one.out.startswith("DAMAGED  long-1  contents missing or damaged: ")


def test_what_a_sound_run_verifies_to_is_said_in_both_ways(home: clew.Home, typed: Typed) -> None:
    """0, and the chain to compare with."""
    shown, told = typed("verify", "aaa"), typed("verify", "aaa", "--json")

    assert (0, f"OK  aaa-1  {told.json['records']} records, ends clean, chain {told.json['chain'][:12]}\n") == (
        shown.code,
        shown.out,
    )


def test_records_come_in_order(home: clew.Home) -> None:
    """The reader behind the log sorts nothing and leaves nothing out."""
    found: list[Record] = list(home.reader.records("aaa-1"))

    told: list[Any] = [record.sequence for record in found]
    assert list(range(1, len(found) + 1)) == told


def contradict(home: clew.Home, run_id: str = "ccc-1") -> None:
    """A run whose result is told twice: every line is what was written, and they cannot all be true."""
    scribe, call = Scribe(run_id).born(), facts(1, run_id=run_id)
    scribe.say(*started(call))
    scribe.say(*returned(call), tool_result(call, is_error=False))
    scribe.say(*completed())
    (home.path / "runs" / f"{run_id}.jsonl").write_bytes(scribe.data)


def test_a_deep_look_finds_what_contradicts_itself(home: clew.Home, typed: Typed) -> None:
    """The chain proves that nobody touched a line, not that its writer was right."""
    contradict(home)
    plain, deep = typed("verify", "ccc"), typed("verify", "ccc", "--deep")

    assert ((0, 1), (12, 5)) == ((plain.code, len(plain.out.splitlines())), (deep.code, len(deep.out.splitlines())))
    assert "pay-1: the result is told twice [I-7: " in deep.out
    assert "    next: look outside, under its key" in deep.out


def test_a_deep_look_as_json_names_line_and_label(home: clew.Home, typed: Typed) -> None:
    """A monitor acts on members."""
    contradict(home)
    one, every = typed("verify", "ccc", "--deep", "--json"), typed("verify", "--deep", "--json")

    found = [(finding["label"], finding["line"], finding["subject"]) for finding in one.json["findings"]]
    assert (12, [("I-7", 10, "pay-1")], 1) == (one.code, found, one.json["findingCount"])
    assert (12, [0, 0, 1]) == (every.code, [told["findingCount"] for told in every.json])


def test_a_deep_look_at_all_runs_says_which_one_it_is(home: clew.Home, typed: Typed) -> None:
    """Below its own line, so that nobody looks at the wrong run."""
    contradict(home)
    lines = typed("verify", "--deep").out.splitlines()

    assert ["OK", "OK", "CONTRADICTS"] == [line.split()[0] for line in lines[:3]]
    assert "  1 finding:" == lines[3]


def test_a_deep_look_goes_on_where_the_fold_gives_up(home: clew.Home, typed: Typed) -> None:
    """The first fault stops the fold; whoever must decide wants to know of all."""
    records = [record for record, _ in read(path_of(home, "aaa-1").read_bytes(), "aaa-1")]
    records.insert(-1, records[3])
    said = [Draft(record.kind, record.payload) for record in records]
    ids = [f"n-{number}" for number in range(len(said))]
    batch = encode_append("aaa-1", after=0, chain=genesis("aaa-1"), drafts=said, timestamp=NOW, event_ids=ids)
    path_of(home, "aaa-1").write_bytes(batch.data)
    (home.path / "runs" / "aaa-1" / "head.json").unlink()
    one, every = typed("verify", "aaa", "--deep"), typed("verify", "--deep")

    assert (12, 12) == (one.code, every.code)
    assert "[run_state_corrupt]" in one.err
    assert all("the step starts a second time [I-4: " in done.out for done in (one, every))


def path_of(home: clew.Home, run_id: str) -> Path:
    return home.path / "runs" / f"{run_id}.jsonl"


def test_a_snapshot_says_that_its_journal_contradicts_itself(home: clew.Home, typed: Typed) -> None:
    """#222: off is `clew verify`; its deep look and the snapshot make the same checks and find the same."""
    contradict(home)
    deep, shown = typed("verify", "ccc", "--deep", "--json").json, typed("show", "ccc", "--json").json
    snapshot = home.result("ccc").snapshot

    assert "findings" not in typed("verify", "ccc", "--json").json
    assert deep["findings"] == snapshot["integrity"]["findings"] == shown["integrity"]["findings"]
    assert [] == home.result("aaa").snapshot["integrity"]["findings"]
    assert "it contradicts itself in 1 place: clew verify --deep" in typed("show", "ccc").out


def _kept(typed: Typed, tmp_path: Path) -> str:
    kept = tmp_path / "verdict.json"
    kept.write_text(typed("verify", "--json").out)
    return str(kept)


def test_a_journal_that_was_cut_is_found_against_a_verdict_that_was_kept(
    home: clew.Home, typed: Typed, tmp_path: Path
) -> None:
    """Whoever can cut the journal can put back its head as well, so what is known must lie elsewhere."""
    kept = _kept(typed, tmp_path)
    journal = Path(home.reader.store.locate("aaa-1"))
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]))
    (journal.with_suffix("") / "head.json").unlink()

    plain, one, every = typed("verify"), typed("verify", "aaa", "--against", kept), typed("verify", "--against", kept)

    assert (0, 12, 12) == (plain.code, one.code, every.code)
    assert f"CORRUPT  aaa-1  run 'aaa-1' is not what it was: it ends with record {len(lines) - 1}" in every.out


def test_a_journal_that_was_removed_is_found_against_a_verdict_that_was_kept(
    home: clew.Home, typed: Typed, tmp_path: Path
) -> None:
    """Of a run that is gone nothing else in the home speaks."""
    kept = _kept(typed, tmp_path)
    Path(home.reader.store.locate("aaa-1")).unlink()

    plain, one, every = typed("verify"), typed("verify", "aaa", "--against", kept), typed("verify", "--against", kept)

    assert (0, 12, 12) == (plain.code, one.code, every.code)
    assert "there is no journal" in one.err


def test_a_home_that_only_grew_agrees_with_its_verdict(home: clew.Home, typed: Typed, tmp_path: Path) -> None:
    """A new run, of which the verdict says nothing, is verified by itself; asked for alone, that is said."""
    kept = _kept(typed, tmp_path)
    home.run_sync(clew.agent(lambda run, _: "x", name="later"), run_id="later-1")

    every, one, told = (
        typed("verify", "--against", kept), typed("verify", "later", "--against", kept),
        typed("verify", "aaa", "--against", kept, "--json"),
    )  # fmt: skip

    assert (0, 10, 0) == (every.code, one.code, told.code)
    assert told.json["records"] == told.json["known"]


def test_a_verdict_that_cannot_be_read_compares_with_nothing(home: clew.Home, typed: Typed, tmp_path: Path) -> None:
    """It must not pass for one that agrees."""
    done = typed("verify", "--against", str(tmp_path / "none.json"))

    assert (2, True) == (done.code, "cannot be read" in done.err)
