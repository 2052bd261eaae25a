"""The sessions of a home: listed, found, judged and shown without a trace; migrated and saved on request."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.core.session.transcripts import Transcript
from clew.errors import Corrupt, NotFound, Refused, UsageError
from clew.runtime.examined import Examined
from clew.runtime.home import Home
from clew.stores.memory import MemoryBlobStore, MemoryRunStore
from clew.stores.sessions.memory import MemorySessionStore
from clew.testing.clock import SetClock
from tests.runtime.test_migrating import TALK


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with three sessions: one of ours, an old one, and one that is damaged."""
    made = Home(tmp_path / ".clew", clock=SetClock())
    with made.session("talk") as session:
        session.append({"role": "user", "content": "hello"})
        session.rename("Greeting")
    folder = tmp_path / ".clew" / "sessions"
    (folder / "s1.jsonl").write_bytes(TALK)
    (folder / "sick.jsonl").write_bytes(TALK.replace(b'"s1"', b'"sick"')[:-1] + b"{}\n")
    return made


def snapshot(home: Home) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in (home.path / "sessions").iterdir()}


def test_a_row_says_what_a_session_is(home: Home) -> None:
    """Also that it cannot be read, and why; none hides another."""
    rows = {row["session"]: row for row in home.sessions()}

    assert ["s1", "sick", "talk"] == sorted(rows)
    assert ("v4a", 1, "Greeting", None) == tuple(rows["talk"][name] for name in ("format", "entries", "title", "error"))
    assert ("v3", 4, "Title") == tuple(rows["s1"][name] for name in ("format", "entries", "title"))
    assert ("v3", None, "session_corrupt") == (
        rows["sick"]["format"],
        rows["sick"]["entries"],
        rows["sick"]["error"]["code"],
    )


def test_looking_changes_nothing(home: Home) -> None:
    """#190 Promise 11: every byte and every time is as it was, also of an old one and of a damaged one."""
    before = snapshot(home)

    list(home.sessions(full=True))
    home.examine_session("s1").view()
    home.judge_file("talk")
    home.project_session("s1")
    with pytest.raises(Corrupt):
        home.examine_session("sick")
    home.salvage_session("sick")

    assert before == snapshot(home)


def test_a_session_that_is_being_written_can_be_looked_at(home: Home) -> None:
    """A reader takes no lock."""
    with home.session("talk") as session:
        session.append({"role": "user", "content": "more"})

        assert 2 == len(home.examine_session("talk").view().messages)


def test_a_long_one_is_read_to_its_end_only_when_that_is_wanted(home: Home) -> None:
    """A list must not read gigabytes; what it does not know it does not say."""
    with home.session("long") as session:
        session.append({"role": "user", "content": "x" * (5 << 20)})

    short = next(row for row in home.sessions() if row["session"] == "long")
    full = next(row for row in home.sessions(full=True) if row["session"] == "long")

    assert (("v4a", None), ("v4a", 1)) == ((short["format"], short["entries"]), (full["format"], full["entries"]))


@pytest.mark.parametrize(("typed", "found"), [("talk", "talk"), ("TA", "talk"), ("s1", "s1"), ("@last", "talk")])
def test_a_part_of_an_id_is_enough(home: Home, typed: str, found: str) -> None:
    """As for runs."""
    assert found == home.find_session(typed)


@pytest.mark.parametrize(
    ("typed", "family", "code"),
    [
        ("none", NotFound, "unknown_session"),
        ("s", UsageError, "ambiguous_run_id"),
        ("a b", UsageError, "invalid_session_id"),
    ],
)
def test_what_means_no_session_is_said_so(home: Home, typed: str, family: Any, code: str) -> None:
    """#179 Nothing is guessed."""
    with pytest.raises(family) as caught:
        home.find_session(typed)

    assert code == caught.value.code


def test_a_session_of_another_name_is_refused_by_its_id_and_read_by_its_path(home: Home, tmp_path: Path) -> None:
    """#188 A file that was copied over another is not its conversation."""
    (home.path / "sessions" / "other.jsonl").write_bytes(TALK)

    with pytest.raises(Corrupt, match="that of session 's1'"):
        home.examine_session("other")

    assert 4 == home.examine_session(str(home.path / "sessions" / "other.jsonl")).state.entries


def test_a_transcript_of_another_program_is_judged_by_its_path(home: Home, tmp_path: Path) -> None:
    """Read only, with line and byte of each call that has no result."""
    block = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {}}
    message = {"id": "m1", "role": "assistant", "content": [block], "usage": {"input_tokens": 1, "output_tokens": 2}}
    path = tmp_path / "theirs.jsonl"
    path.write_text(json.dumps({"type": "assistant", "uuid": "u1", "sessionId": "x", "message": message}) + "\n")

    found = home.judge_file(str(path))

    assert isinstance(found, Transcript)
    assert [("c1", 1, 0)] == [(each.call_id, each.line, each.byte) for each in found.orphan_calls]
    assert isinstance(home.judge_file("talk"), Examined)


def test_a_damaged_one_is_saved_in_a_file_of_its_own(home: Home, tmp_path: Path) -> None:
    """On request, on a copy."""
    before, to = snapshot(home), tmp_path / "saved.jsonl"

    saved = home.salvage_session("sick", to)

    assert (saved.data, before) == (to.read_bytes(), snapshot(home))
    assert 4 == home.examine_session(str(to)).state.entries
    with pytest.raises(Refused, match="already"):
        home.salvage_session("sick", to)


def test_a_home_migrates_a_session_of_its_own(home: Home) -> None:
    """#190 By a part of its id."""
    done = home.migrate_session("s1")

    assert (True, "s1.jsonl.v3.backup") == (done.migrated, done.backup)


def test_a_home_in_memory_has_sessions_too() -> None:
    """Tests of a user's own need no disk."""
    home = Home.memory(clock=SetClock())
    with home.session("talk") as session:
        session.append({"role": "user", "content": "hello"})

    assert ["talk"] == [row["session"] for row in home.sessions()]


def test_the_last_of_none_is_unknown() -> None:
    """There is no such session, which is no fault of how it was typed."""
    with pytest.raises(NotFound) as caught:
        Home.memory(clock=SetClock()).find_session("@last")

    assert ("unknown_session", "there is no session here yet") == (caught.value.code, caught.value.message)


class Counting(MemorySessionStore):
    """Counts how often a session is opened to be read; `gone` ones are deleted by somebody between list and look."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.gone: tuple[str, ...] = ()

    def ids(self) -> list[str]:
        return [*super().ids(), *self.gone]

    def read(self, session_id: str, start: int = 0, end: int | None = None) -> Any:
        self.opened.append(session_id)
        return super().read(session_id, start, end)


def crowded(count: int) -> tuple[Home, Counting]:
    store = Counting()
    for number in range(count):
        store.implant(f"t{number}", TALK.replace(b'"s1"', b'"t%d"' % number))
    return Home(".clew", store=MemoryRunStore(), blobs=MemoryBlobStore(), sessions=store, clock=SetClock()), store


def test_of_a_thousand_short_sessions_each_is_opened_once() -> None:
    """C25: a list is what one asks for first, and most."""
    home, store = crowded(1000)

    rows = list(home.sessions())

    assert (1000, sorted(row["session"] for row in rows)) == (len(rows), sorted(store.opened))


def test_a_session_that_is_gone_meanwhile_is_not_listed_and_hides_none() -> None:
    """Somebody deleted it between the list of names and the look."""
    home, store = crowded(2)
    store.gone = ("away",)

    assert ["t0", "t1"] == [row["session"] for row in home.sessions()]


@pytest.mark.skipif(sys.platform == "win32", reason="a link needs a privilege there")
def test_a_link_among_the_sessions_hides_none(home: Home) -> None:
    """It is not followed, and that is said; the others are listed."""
    (home.path / "sessions" / "other.jsonl").symlink_to(home.path / "sessions" / "talk.jsonl")

    rows = {row["session"]: row for row in home.sessions()}

    assert (["other", "s1", "sick", "talk"], None) == (sorted(rows), rows["other"]["bytes"])
    assert "home_link_refused" == rows["other"]["error"]["code"]
