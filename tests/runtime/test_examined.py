"""Sessions as they are read to be judged: by a doctor, by the second reader of a journal."""

from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.invariants import SessionFacts
from clew.errors import Storage
from clew.runtime.examined import examine_own, facts_at_end
from clew.runtime.migrating import migrate_session
from clew.stores.sessions.memory import MemorySessionStore
from tests.core.session.scribe import asked, calling, result, session, user

HEADER = b'{"kind":"header","version":4,"id":"talk","createdAt":1,"cwd":"/"}\n'
FACT = b'{"kind":"fact","seq":1,"fact":"name","name":"%b"}\n'


def kept(data: bytes, session_id: str = "talk") -> MemorySessionStore:
    store = MemorySessionStore()
    store.implant(session_id, data)
    return store


class Counting(MemorySessionStore):
    """Counts the bytes that are asked of it."""

    asked = 0

    def read(self, session_id: str, start: int = 0, end: int | None = None) -> Any:
        self.asked += (end or self.size_bytes(session_id)) - start
        return super().read(session_id, start, end)


@pytest.mark.parametrize(
    ("data", "last"),
    [
        (HEADER, 0),
        (HEADER + FACT % b"a", 1),
        (HEADER + FACT % (b"a" * 70_000), 1),
        (HEADER + FACT % b"a" + b'{"kind":"fact","se', 1),
        (HEADER[:-1], None),
        (HEADER + b"no line\n", None),
        (HEADER + b"[]\n", None),
        (HEADER + b'{"kind":"fact"}\n', None),
        (session(user("u")), None),
        (b"", None),
    ],
    ids=[
        "empty",
        "one",
        "longer than a look",
        "torn",
        "no line at all",
        "no JSON",
        "no object",
        "no seq",
        "v3",
        "none",
    ],
)
def test_the_last_whole_line_says_how_far_a_session_has_come(data: bytes, last: int | None) -> None:
    """What cannot be told is not guessed: a wrong number would accuse the run."""
    wanted = None if last is None else SessionFacts("talk", last)

    assert wanted == facts_at_end(kept(data), "talk")


def test_a_session_that_is_gone_tells_nothing() -> None:
    """It is no error of who only looks at the run."""
    assert facts_at_end(MemorySessionStore(), "talk") is None


def test_of_a_long_session_the_end_is_read() -> None:
    """An account of a run must not cost a whole conversation."""
    store = Counting()
    store.implant("talk", HEADER + b"".join(FACT.replace(b'"seq":1', b'"seq":%d' % n) % b"x" for n in range(1, 9000)))

    assert (SessionFacts("talk", 8999), True) == (facts_at_end(store, "talk"), store.asked <= 1 << 16)


def test_a_session_of_a_store_is_read_to_its_end() -> None:
    """With the id that it must have."""
    found = examine_own(kept(session(user("u"), id="talk")), "talk")

    assert (1, "u") == (found.state.entries, found.view().leaf)


@pytest.mark.parametrize("text", ["hi", "much longer than the other, so that no entry stands where one stood"])
def test_a_session_that_is_migrated_while_it_is_looked_at_is_not_shown_as_something_else(text: str) -> None:
    """The places of its entries are those of a file that is not there any more."""
    data = session(user("u", None, text), user("v", "u"), id="talk")
    store = kept(data)
    found = examine_own(store, "talk")
    migrate_session(store, "talk")

    with pytest.raises(Storage) as caught:
        found.view()

    assert "session_replaced" == caught.value.code


def test_a_session_that_only_grew_is_shown_as_it_was_read() -> None:
    """Its writer goes on; what was read is still there."""
    store = kept(HEADER + FACT % b"a")
    found = examine_own(store, "talk")
    store.implant("talk", HEADER + FACT % b"a" + (FACT % b"b").replace(b'"seq":1', b'"seq":2'))

    assert "a" == found.view().title


def chat(run: Any, prompt: str) -> None:
    run.say({"role": "user", "content": prompt})
    if prompt == "wait":
        run.pause("enough")


@pytest.fixture
def home(tmp_path: Path) -> clew.Home:
    """A home with a run that began at the sixth line of its session."""
    made = clew.Home(tmp_path / ".clew")
    with made.session("talk") as talk:
        talk.append(*({"role": "user", "content": str(number)} for number in range(6)))
    made.run_sync(chat, "wait", run_id="r1", session="talk", signals=False)
    return made


def lines(home: clew.Home) -> tuple[Path, list[bytes]]:
    path = home.path / "sessions" / "talk.jsonl"
    return path, path.read_bytes().splitlines(keepends=True)


def test_a_run_within_its_session_has_no_finding(home: clew.Home) -> None:
    """#225 And it is said how far the session has come."""
    found = home.verify("r1", deep=True)

    assert (0, {"sessionId": "talk", "lastSequence": 7, "error": None}) == (found["findingCount"], found["session"])
    assert [] == home.result("r1").snapshot["integrity"]["findings"]


def test_a_run_that_begins_beyond_the_end_of_its_session_is_found(home: clew.Home) -> None:
    """#225 An older copy of the session was put back: the run goes on behind entries that are nowhere."""
    path, kept_lines = lines(home)
    path.write_bytes(b"".join(kept_lines[:5]))

    deep, account = home.verify("r1", deep=True), home.result("r1").snapshot["integrity"]

    assert ["I-5"] == [each["label"] for each in deep["findings"]]
    assert ["I-5"] == [each["label"] for each in account["findings"]]


def test_a_session_that_cannot_be_read_is_said_beside_the_findings(home: clew.Home) -> None:
    """The journal is what it was; nothing is found against it, and nothing is called sound that was not looked at."""
    path, kept_lines = lines(home)
    path.write_bytes(b"".join([*kept_lines[:3], b"nonsense\n", *kept_lines[3:]]))
    damaged = home.verify("r1", deep=True)
    path.unlink()
    gone = home.verify("r1", deep=True)

    assert ["session_corrupt", "unknown_session"] == [each["session"]["error"]["code"] for each in (damaged, gone)]
    assert [0, 0] == [each["findingCount"] for each in (damaged, gone)]


def test_a_session_that_was_put_back_in_its_old_format_tells_no_number(home: clew.Home) -> None:
    """Its lines are not numbered, so there is nothing to compare with."""
    path, _ = lines(home)
    path.write_bytes(session(user("u"), id="talk"))
    found = home.verify("r1", deep=True)

    assert ({"sessionId": "talk", "lastSequence": None, "error": None}, 0) == (found["session"], found["findingCount"])


def test_a_run_without_a_session_is_not_asked_after_one(home: clew.Home) -> None:
    """Most have none."""
    home.run_sync(chat, "x", run_id="alone", signals=False, on_error="fail")

    assert "session" not in home.verify("alone", deep=True)


def test_a_doctor_counts_the_calls_without_a_result_for_each_session(home: clew.Home) -> None:
    """C05: and says of each that cannot be read that it cannot."""
    folder = home.path / "sessions"
    said = session(calling("a", None, "c1", "c2"), result("r", "a", "c1"), id="old")
    (folder / "old.jsonl").write_bytes(said)
    with home.session("new") as talk:
        talk.append(asked("c3", "c4"))
    (folder / "sick.jsonl").write_bytes(b"nonsense\n")

    talks = home.checkup().talks

    assert (4, 3, 12) == (talks.sessions, talks.orphan_calls, talks.worst_exit)
    assert [("new", 2, 2), ("old", 1, 2)] == [
        (each["session"], each["calls"], each["line"]) for each in talks.orphaned.first
    ]
    assert [("sick", "session_corrupt")] == [(each["session"], each["code"]) for each in talks.unreadable.first]


def test_sessions_that_cannot_be_listed_are_one_trouble_of_a_doctor(home: clew.Home) -> None:
    """The rest of the home is looked over all the same."""
    (home.path / "sessions").rename(home.path / "elsewhere")
    (home.path / "sessions").touch()

    found = home.checkup()

    assert ([""], 0, 1) == (
        [each["session"] for each in found.talks.unreadable.first],
        found.talks.sessions,
        found.runs,
    )
