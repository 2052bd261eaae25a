"""Bad input, part 2: what somebody edited, cut, linked or put into a home by hand. Named, never touched."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.contract.hostile import OTHER, RUN, WHO, Place, complaint, differences, fingerprint, json_lines

Change = Callable[[bytes], bytes]
LOOKING = (("show", RUN), ("show", RUN, "--log"), ("show", RUN, "--effects"), ("verify", RUN))
ACTING = (
    ("resume", RUN), ("resume", RUN, "--dry-run"), ("settle", RUN, "did-not-happen", *WHO), ("abort", RUN),
    ("unlock", RUN, "--nonce", "n1", *WHO),
)  # fmt: skip
DEEP, LONG = 100_000, 20_000_000


def by_line(change: Callable[[list[bytes]], list[bytes]]) -> Change:
    return lambda data: b"".join(change(data.splitlines(keepends=True)))


def instead(number: int, *lines: bytes) -> Change:
    """Other lines in the place of this one."""
    return by_line(lambda all_lines: [*all_lines[: number - 1], *lines, *all_lines[number:]])


def within(number: int, old: bytes, new: bytes) -> Change:
    """A piece of this line replaced."""

    def change(lines: list[bytes]) -> list[bytes]:
        assert old in lines[number - 1]
        return [*lines[: number - 1], lines[number - 1].replace(old, new, 1), *lines[number:]]

    return by_line(change)


# What was done -> how, at which line it must be seen, and a part of why.
EDITED: dict[str, tuple[Change, int, str]] = {
    "a value": (within(4, b'"order":"1042"', b'"order":"1043"'), 4, "its chain value is not what"),
    "an amount": (within(4, b'"cents":4200', b'"cents":42'), 4, "its chain value is not what"),
    "a receipt": (within(6, b'"status":"started"', b'"status":"unknown"'), 6, "its chain value is not what"),
    "a chain value": (within(2, b'"chain":"', b'"chain":"f'), 2, "its chain value is not what"),
    "a line removed": (by_line(lambda lines: [*lines[:3], *lines[4:]]), 4, "it is not record 4"),
    "a line twice": (by_line(lambda lines: [*lines[:3], lines[2], *lines[3:]]), 4, "it is not record 4"),
    "two lines swapped": (by_line(lambda lines: [lines[0], lines[2], lines[1], *lines[3:]]), 2, "it is not record 2"),
    "an empty line": (instead(4, b"\n"), 4, "it is not strict JSON"),
    "a comment": (instead(4, b"# mended by hand\n"), 4, "it is not strict JSON"),
    "a member twice": (within(4, b'"version":1,', b'"version":1,"version":1,'), 4, "a member name is repeated"),
    "NaN": (within(4, b'"cents":4200', b'"cents":NaN'), 4, "NaN is not a JSON number"),
    "not UTF-8": (within(4, b"1042", b"\xff\xfe"), 4, "it is not strict JSON"),
    "another run": (within(4, b'"runId":"k3f9x2"', b'"runId":"k3f9x3"'), 4, "it is not record 4"),
    "line ends of Windows": (lambda data: data.replace(b"\n", b"\r\n"), 1, "append is not its last member"),
    "a byte order mark": (lambda data: b"\xef\xbb\xbf" + data, 1, "it is not strict JSON"),
    "saved as UTF-16": (lambda data: data.decode().encode("utf-16"), 1, "it is not strict JSON"),
    "emptied": (lambda data: b"", 1, "the file ends, but record"),
    "its last append cut off": (by_line(lambda lines: lines[:6]), 7, "the file ends, but record"),
    "a note behind it": (lambda data: data + b"seen by ann\n", 0, "it does not begin like record"),
    "a line of 20 MB": (instead(4, b"x" * LONG + b"\n"), 4, "it is not strict JSON"),
    "20 MB in a value": (within(4, b"1042", b"1" * LONG), 4, "its chain value is not what"),
    "20 MB without a line end": (lambda data: data + b"x" * LONG, 0, "it does not begin like record"),
    "more than an append": (lambda data: data + b"x" * (LONG * 2), 0, "it is longer than 33554432 bytes"),
    "100,000 lists": (instead(4, b"[" * DEEP + b"]" * DEEP + b"\n"), 4, "it is nested too deeply"),
    "100,000 objects": (instead(4, b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"\n"), 4, "it is nested too deeply"),
    "100,000 in a value": (within(4, b'"1042"', b"[" * DEEP + b"]" * DEEP), 4, "it is nested too deeply"),
}


def place_of(data: bytes, line: int) -> int:
    """The byte at which a line begins."""
    return len(b"".join(data.splitlines(keepends=True)[: line - 1]))


@pytest.mark.parametrize("edited", EDITED)
def test_a_journal_edited_by_hand_is_refused_by_every_command_with_line_and_byte(place: Place, edited: str) -> None:
    """#22, #24: fail closed; not one byte, mode or time below the home changes, whoever asks for whatever."""
    change, number, why = EDITED[edited]
    place.waiting()
    original = place.journal().read_bytes()
    line = number or len(original.splitlines()) + 1
    place.damage(change)
    before = fingerprint(place.home)
    # For the others, and above all for what is long, one command of each kind is enough.
    deeds = (*LOOKING, *ACTING) if edited == "a value" else (LOOKING[0], LOOKING[3], ACTING[0])

    met = [complaint(place.type(*words)) for words in deeds]

    where = f"the journal of run 'k3f9x2' is damaged at line {line}, byte {place_of(original, line)}: "
    assert {(12, "run_state_corrupt")} == {(each.exit, each.code) for each in met}
    assert {True} == {each.message.startswith(where) and why in each.message for each in met}
    assert {True} == {"clew verify k3f9x2" in each.next for each in met}
    assert [] == differences(before, fingerprint(place.home))


@pytest.mark.parametrize("edited", ["an amount", "a line removed", "100,000 objects"])
def test_a_damaged_run_is_one_row_of_the_list_and_one_verdict_of_many(place: Place, edited: str) -> None:
    """The others are still there to be seen and worked with."""
    place.done()
    place.waiting()
    place.damage(EDITED[edited][0])
    before = fingerprint(place.home)

    listed, verified = place.type("ls"), place.type("verify")

    assert (0, 12) == (listed.code, verified.code)
    assert "UNREADABLE  k3f9x2" in listed.out
    assert "is damaged at line " in listed.out
    assert "  next: clew verify k3f9\n" in listed.out
    assert f"COMPLETED   {OTHER}" in listed.out
    assert ["CORRUPT", "next:", "OK"] == [line.split()[0] for line in verified.out.splitlines()]
    assert [] == differences(before, fingerprint(place.home))


def test_a_damaged_journal_is_refused_by_a_real_process_and_by_the_library(place: Place) -> None:
    """The same refusal behind each door, as one line of JSON and as an exception."""
    place.waiting()
    place.damage(EDITED["100,000 objects"][0])
    before = fingerprint(place.home)

    done = place("show", RUN, "--json")
    with pytest.raises(clew.Corrupt) as caught:
        clew.Home(place.home).resume_sync(RUN, length_agent)

    facts = {"run": RUN, "line": 4, "byte": caught.value.facts["byte"], "why": caught.value.facts["why"]}
    assert (12, "", "run_state_corrupt", facts) == (done.code, done.out, done.error["code"], done.error["facts"])
    assert done.error["message"] == str(caught.value)
    assert 1 == len(json_lines(done.err))
    assert [] == differences(before, fingerprint(place.home))


# The head.

HEADS: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"{",
    "another shape": b"[]",
    "100,000 lists": b"[" * DEEP,
    "100,000 lists in its row": b'{"sequence":1,"chain":"x","size_bytes":1,"row":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "20 MB": b"x" * LONG,
}


@pytest.mark.parametrize("head", HEADS)
def test_a_head_that_is_none_is_named_by_its_path(place: Place, head: str) -> None:
    """Without it nobody knows how far the journal should be; accepting that is a person's word."""
    place.waiting()
    path = place.home / "runs" / RUN / "head.json"
    path.write_bytes(HEADS[head])

    met = [place.refused(*words) for words in (*LOOKING, *ACTING)]

    assert {(12, "head_corrupt", ())} == {(each.exit, each.code, tuple(each.changed)) for each in met}
    assert {True} == {each.message.startswith(f"{str(path)!r}: it holds no head") for each in met}
    assert {True} == {f"clew verify {RUN} --accept-loss --by NAME --reason TEXT" in each.next for each in met}


@pytest.mark.parametrize("head", HEADS)
def test_what_is_said_of_a_broken_head_frees_the_run(place: Place, head: str) -> None:
    """Advice that does not work would be worse than none."""
    place.waiting()
    (place.home / "runs" / RUN / "head.json").write_bytes(HEADS[head])

    codes = [place.type(*words).code for words in (("verify", RUN, "--accept-loss", *WHO), ("verify", RUN))]

    assert [0, 0] == codes


# Answers beside the journal.

LONG_AGENT = """
import clew

@clew.tool(effect="none")
def read() -> str:
    return "x" * 20_000

@clew.agent(tools=[read])
def reader(run, prompt):
    text = run.call(read)
    if prompt == "raise":
        raise RuntimeError("after the answer")
    return len(text)
"""


@pytest.fixture
def reader(place: Place) -> Path:
    """A paused run whose answer lies in a blob; the blob."""
    (place.folder / "reader.py").write_text(LONG_AGENT, "utf-8")
    place.type("run", "reader.py:reader", "raise", "--run-id", RUN)
    return next(path for path in (place.home / "blobs").rglob("*") if path.is_file())


@pytest.mark.parametrize("damage", ["gone", "one byte", "empty", "a link"])
def test_an_answer_whose_bytes_are_not_those_is_named_and_never_told(place: Place, reader: Path, damage: str) -> None:
    """The agent must not go on with other bytes than it was told; the digest is what brings the file back."""
    data, digest = reader.read_bytes(), reader.name
    reader.unlink()
    if damage == "a link":
        kept = place.folder / "kept"
        kept.write_bytes(data)
        reader.symlink_to(kept)
    elif damage != "gone":
        reader.write_bytes(b"" if damage == "empty" else b"y" + data[1:])
    before = fingerprint(place.home)

    verified, planned = place.type("verify", RUN), place.type("resume", RUN, "--dry-run")

    if damage == "a link":
        assert {4} == {verified.code, planned.code}
        assert {"[home_link_refused]"} == {done.err.splitlines()[0].split()[-1] for done in (verified, planned)}
    else:
        assert (12, 0) == (verified.code, planned.code)
        assert verified.out.startswith(f"DAMAGED  {RUN}  contents missing or damaged: {digest}; ")
        assert f"the bytes of the answer are missing or damaged (blob {digest})" in planned.out
    assert [] == differences(before, fingerprint(place.home))


# Links: the home may be one, nothing below it may.

LINKED = ("runs", f"runs/{RUN}.jsonl", f"runs/{RUN}", f"runs/{RUN}/head.json", f"runs/{RUN}/inbox")


@pytest.mark.parametrize("linked", LINKED)
@pytest.mark.parametrize("kind", ["moved away", "to nowhere", "to itself"])
def test_a_link_inside_the_home_is_refused_by_its_path(place: Place, linked: str, kind: str) -> None:
    """A link could lead a write anywhere; where it leads is not even looked at."""
    place.waiting()
    path, away = place.home / linked, place.folder / "away"
    away.mkdir()
    if path.name == "inbox":
        path.mkdir(exist_ok=True)
    os.rename(path, away / path.name)
    path.symlink_to({"moved away": away / path.name, "to nowhere": away / "gone", "to itself": path}[kind])
    before = fingerprint(place.folder)
    deeds = [*LOOKING, *ACTING] if path.name != "inbox" else [("pause", RUN)]
    deeds = deeds if not linked.endswith("head.json") else deeds[:-1]

    met = [place.refused(*words) for words in deeds]

    assert {(4, "home_link_refused")} == {(each.exit, each.code) for each in met} or path.name == "inbox"
    assert [] == [each for each in met if each.code == "home_link_refused" and repr(str(path)) not in each.message]
    assert [] == differences(before, fingerprint(place.folder))


def test_a_link_in_the_way_of_a_new_run_is_refused_before_anything_runs(place: Place) -> None:
    """The first write of a home is where a planted link would be followed."""
    place.home.mkdir()
    (place.folder / "elsewhere").mkdir()
    (place.home / "runs").symlink_to(place.folder / "elsewhere")

    met = place.refused("run", "agent.py:settle", "1042")

    assert (4, "home_link_refused") == (met.exit, met.code)
    assert [] == list((place.folder / "elsewhere").iterdir())
    assert [] == place.payments


def test_a_home_that_is_a_link_itself_is_one(place: Place) -> None:
    """The home may be a link: a disk with more room, or a project that was moved."""
    (place.folder / "big").mkdir()
    place.home.symlink_to(place.folder / "big")

    place.done()

    assert 0 == place.type("verify", OTHER).code


def test_a_home_on_a_disk_that_is_not_there_is_no_reason_to_look_further_up(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run must not begin in the home of the project around it because a disk was not mounted."""
    place.done()
    inner = place.folder / "inner"
    inner.mkdir()
    (inner / ".clew").symlink_to(place.folder / "not-mounted")
    before = fingerprint(place.folder)
    monkeypatch.chdir(inner)

    listed = complaint(place.type("ls"))
    begun = complaint(place.type("run", "../agent.py:settle", "1042"))

    assert ((10, "no_home"), (13, "run_state_failed")) == ((listed.exit, listed.code), (begun.exit, begun.code))
    assert [True, True] == [repr(str(inner / ".clew")) in each.message for each in (listed, begun)]
    assert [] == differences(before, fingerprint(place.folder))


# Other things than files.


@pytest.mark.parametrize("thing", ["folder", "pipe"])
@pytest.mark.parametrize("name", [f"runs/{RUN}.jsonl", f"runs/{RUN}/head.json"])
def test_what_is_no_file_is_refused_and_never_waited_for(place: Place, thing: str, name: str) -> None:
    """Opening a pipe would wait for a writer for ever."""
    place.waiting()
    path = place.home / name
    path.unlink()
    path.mkdir() if thing == "folder" else os.mkfifo(path)

    met = [place.refused(*words) for words in LOOKING]

    assert {True} == {each.exit in (10, 12, 13) for each in met}
    assert {()} == {tuple(each.changed) for each in met}


# Large and deep, and legal.


def test_an_input_of_20_mb_is_a_run_like_any_other(tmp_path: Path) -> None:
    """A line of 20 MB that clew wrote itself is read, verified and gone on from."""
    home = clew.Home(tmp_path / ".clew")
    asked = {"text": "x" * LONG}

    result = home.run_sync(length_agent, asked, run_id="r1")

    assert ("completed", LONG) == (result.operation.state, result.output)
    assert "clean" == home.verify("r1")["tail"]["verdict"]


def length_agent(run: clew.SyncRun, prompt: Any) -> int:
    return len(prompt["text"])


def test_an_input_larger_than_an_append_starts_nothing(tmp_path: Path) -> None:
    """Refused with the size and the limit before there is a home."""
    home = clew.Home(tmp_path / ".clew")

    with pytest.raises(clew.Refused) as caught:
        home.run_sync(length_agent, {"text": "x" * (LONG * 2)}, run_id="r1")

    assert ("append_too_large", False) == (caught.value.code, home.path.exists())
    assert "33554432" in caught.value.message
    assert caught.value.next.startswith("Keep large content as a file")


@pytest.mark.parametrize("name", ["deep", "long", "named"])
def test_a_command_that_is_none_stops_no_run_and_is_left_where_it_lies(place: Place, name: str) -> None:
    """Anybody may put a file into an inbox; it is neither obeyed nor deleted."""
    inbox = place.home / "runs" / RUN / "inbox"
    place.waiting()
    inbox.mkdir(exist_ok=True)
    data = {"deep": b"[" * DEEP, "long": b"x" * LONG, "named": json.dumps({"type": "abort"}).encode()}[name]
    (inbox / f"{name}.json").write_bytes(data)
    place.type("settle", RUN, "did-not-happen", *WHO)

    done = place.type("resume", RUN)

    assert (0, ["1042", "1042"]) == (done.code, place.payments)
    assert [f"{name}.json"] == [path.name for path in inbox.iterdir()]
    assert data == (inbox / f"{name}.json").read_bytes()
