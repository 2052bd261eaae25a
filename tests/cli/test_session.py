"""`clew session …` as it is typed."""

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shell import Done, Shell
from tests.runtime.test_migrating import TALK

Typed = Callable[..., Done]

CHATTY = """
import clew

def chat(run, prompt):
    run.say({"role": "user", "content": prompt})
    run.say({"role": "assistant", "content": "hello " + prompt})
    return str(len(run.conversation()))
"""


@pytest.fixture
def talked(shell: Shell) -> Shell:
    """A home in which a run has talked in a session, beside an old one and a damaged one."""
    (shell.folder / "chat.py").write_text(CHATTY, "utf-8")
    assert 0 == shell("run", "chat.py:chat", "ann", "--session", "talk").code
    folder = shell.folder / ".clew" / "sessions"
    (folder / "s1.jsonl").write_bytes(TALK)
    return shell


def sick(shell: Shell) -> Path:
    path = shell.folder / ".clew" / "sessions" / "sick.jsonl"
    path.write_bytes(TALK.replace(b'"s1"', b'"sick"').replace(b"\n{", b"{", 2).replace(b"{", b"\n{", 1)[1:])
    return path


def test_a_run_goes_on_with_the_session_that_is_named(talked: Shell) -> None:
    """The second one hears what the first one said."""
    done = talked("run", "chat.py:chat", "bob", "--session", "talk")

    assert (0, "4") == (done.code, done.out.strip())


def test_the_sessions_are_listed_with_what_they_are(talked: Shell) -> None:
    """Format, entries, size, title."""
    rows = {row["session"]: row for row in talked("session", "ls", "--json").json}

    assert (("v4a", 2, None), ("v3", 4, "Title")) == (
        tuple(rows["talk"][name] for name in ("format", "entries", "title")),
        tuple(rows["s1"][name] for name in ("format", "entries", "title")),
    )
    assert ["s1    v3   4 entries  682 bytes  Title"] == [
        each for each in talked("session", "ls").out.splitlines() if each.startswith("s1")
    ]


def test_a_conversation_is_shown_as_json_with_exactly_the_members_that_were_promised(talked: Shell) -> None:
    """Programs are written against them."""
    told = talked("session", "show", "talk", "--json").json

    members = "entries view title level model tools labels totals leaf warnings openOperations orphanCalls"
    assert (members.split(), ["user", "assistant"]) == (list(told), [each["role"] for each in told["view"]])


def test_looking_changes_nothing(talked: Shell) -> None:
    """Promise 11, at every door that looks."""
    before = talked.bytes_and_times()

    codes = [
        talked("session", *words).code
        for words in (("ls",), ("show", "s1"), ("verify",), ("salvage", "s1"), ("export", "s1"), ("show", "talk"))
    ]

    assert ([0] * 6, before) == (codes, talked.bytes_and_times())


def test_an_old_one_is_migrated_and_a_second_time_nothing_changes(talked: Shell) -> None:
    """#190 The copy lies beside it, byte for byte."""
    first = talked("session", "migrate", "s1", "--json").json
    before = talked.bytes_and_times()

    second = talked("session", "migrate", "s1")

    folder = talked.folder / ".clew" / "sessions"
    assert (True, "s1.jsonl.v3.backup", TALK) == (
        first["migrated"], first["backup"], (folder / first["backup"]).read_bytes(),
    )  # fmt: skip
    assert (0, True, before) == (second.code, "nothing was changed" in second.out, talked.bytes_and_times())


def test_a_damaged_one_ends_with_twelve_and_says_where(talked: Shell) -> None:
    """#193 A script must hear it."""
    path = sick(talked)
    data = path.read_bytes()

    done = [talked("session", word, "sick", "--json") for word in ("show", "verify", "migrate")]

    assert [12, 12, 12] == [each.code for each in done]
    assert {"session_corrupt", "session_migration_invalid"} == {each.error["code"] for each in done}
    assert ({1}, data) == ({each.error["facts"]["line"] for each in done}, path.read_bytes())


def test_all_are_verified_at_once_and_one_that_is_damaged_hides_no_other(talked: Shell) -> None:
    """The worst counts."""
    sick(talked)

    done = talked("session", "verify", "--json")
    told = talked("session", "verify")

    assert (12, ["s1", "sick", "talk"]) == (done.code, [each["session"] for each in done.json])
    assert (12, ["OK", "CORRUPT", "next:", "OK"]) == (told.code, [each.split()[0] for each in told.out.splitlines()])


def test_what_can_be_read_of_a_damaged_one_is_saved_in_another_file(talked: Shell) -> None:
    """C114 And every byte that is not in it is named."""
    path = talked.folder / "fused.jsonl"
    lines = TALK.splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:-1] + lines[2] + b"rubbish\n" + b"".join(lines[3:]))

    dry = talked("session", "salvage", "./fused.jsonl", "--json").json
    done = talked("session", "salvage", "./fused.jsonl", "--to", "saved.jsonl")

    assert ([(3, 8)], None) == ([(each["line"], each["bytes"]) for each in dry["leftOut"]], dry["to"])
    assert (0, TALK) == (done.code, (talked.folder / "saved.jsonl").read_bytes())
    assert 4 == talked("session", "salvage", "./fused.jsonl", "--to", "saved.jsonl").code


def test_a_session_of_another_version_ends_with_four(talked: Shell) -> None:
    """It is not damaged; a newer clew may know it."""
    (talked.folder / "new.jsonl").write_bytes(TALK.replace(b'"version": 3', b'"version": 9'))

    done = talked("session", "verify", "./new.jsonl", "--json")

    assert (4, "session_unsupported", 9) == (done.code, done.error["code"], done.error["facts"]["version"])


@pytest.mark.parametrize("name", ["talk.jsonl.v3.backup", "talk.txt"])
def test_a_name_with_an_ending_is_a_file(talked: Shell, name: str) -> None:
    """No id has one; a backup lies beside its session under such a name."""
    (talked.folder / name).write_bytes(TALK)

    assert 0 == talked("session", "verify", name).code


def test_a_file_that_is_no_session_is_called_none(talked: Shell) -> None:
    """A journal has a version 1 too, and is no session of version 1."""
    (talked.folder / "run.jsonl").write_bytes(b'{"version":1,"runId":"r","sequence":1}\n')

    done = talked("session", "verify", "run.jsonl")

    assert (4, True) == (done.code, "does not begin with the header of a session [session_unsupported]" in done.err)
    assert "next: Nothing was touched. Transcripts of other programs" in done.err


def test_messages_are_exported_as_lines_of_json(talked: Shell) -> None:
    """For whoever sends them to a model."""
    lines = talked("session", "export", "talk", "--for-model").out.splitlines()

    assert ["ann", "hello ann"] == [json.loads(each)["content"] for each in lines]


@pytest.mark.parametrize(
    ("words", "code"),
    [(("show", "none"), 10), (("show", "a b"), 2), (("show", "talk", "--lane", "none"), 10), (("migrate", "none"), 10)],
)
def test_what_is_not_there_is_said_so(talked: Shell, words: tuple[str, ...], code: int) -> None:
    """The codes of every command."""
    assert code == talked("session", *words).code


def test_without_a_home_a_file_is_read_all_the_same(shell: Shell) -> None:
    """Whoever was given a transcript has no home for it."""
    (shell.folder / "talk.jsonl").write_bytes(TALK)

    assert [0, 10] == [shell("session", "show", "talk.jsonl").code, shell("session", "ls").code]
    assert not (shell.folder / ".clew").exists()


def test_what_is_exported_is_what_was_said_to_the_last_digit(talked: Shell) -> None:
    """Whoever takes a conversation elsewhere takes all of it: numbers beyond a float, lone surrogates, separators."""
    message = (
        b'{"role":"user","content":"lone \\ud800 here \xe2\x80\xa8","n":1E+400,"big":123456789012345678901234567890}'
    )
    line = (
        b'{"type":"message","id":"a","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z","message":%b}\n' % message
    )
    path = talked.folder / ".clew" / "sessions" / "odd.jsonl"
    path.write_bytes(TALK.splitlines(keepends=True)[0].replace(b'"s1"', b'"odd"') + line)

    before = talked("session", "export", "odd").out.encode()
    talked("session", "migrate", "odd")

    assert message + b"\n" == before == talked("session", "export", "odd").out.encode()


def test_an_old_session_that_lies_elsewhere_is_told_the_way_home(typed: Typed, tmp_path: Path) -> None:
    """Who has a file of another program, and no home yet, types what stands there."""
    old = tmp_path / "old talk.jsonl"
    old.write_bytes(TALK)

    refused = typed("session", "migrate", "old talk.jsonl")

    copying, migrating = refused.err.split("`")[1], refused.err.split("`")[3]
    subprocess.run(copying, shell=True, check=True, cwd=tmp_path)  # as somebody types it
    done = typed(*shlex.split(migrating)[1:])
    assert (2, 0, TALK) == (refused.code, done.code, old.read_bytes())


@pytest.mark.parametrize("words", [("show",), ("verify",), ("migrate",), ("export",)], ids=lambda words: words[0])
def test_what_is_damaged_is_saved_by_the_command_that_is_advised(talked: Shell, words: tuple[str, ...]) -> None:
    """Each command that meets the damage names the one that helps, with the session in it."""
    sick(talked)

    done = talked("session", *words, "sick")

    assert (12, True) == (done.code, "`clew session salvage sick` would keep" in done.err)


def test_damage_among_others_has_its_next_step(talked: Shell) -> None:
    """As it has when that session is checked alone."""
    sick(talked)

    done = talked("session", "verify")

    assert (12, True) == (done.code, "  next: Nothing was changed." in done.out)
