"""A session that lives: what is said stands once, its end is mended by its writer alone, a writer is alone."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.core.session.reading import read_session
from clew.core.session.values import Said
from clew.core.session.viewing import view
from clew.errors import Held, NotFound, Refused, Storage, UsageError
from clew.runtime.session import CoreMindSession, open_session
from clew.stores.base import SessionStore
from clew.stores.sessions.files import FileSessionStore
from clew.stores.sessions.memory import MemorySessionStore
from clew.testing.clock import SetClock
from tests.runtime.test_migrating import TALK


@pytest.fixture(params=["memory", "files"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SessionStore:
    return MemorySessionStore() if request.param == "memory" else FileSessionStore(tmp_path / ".clew")


def opened(store: SessionStore, session_id: str = "talk", **how: Any) -> CoreMindSession:
    return open_session(store, SetClock(), session_id, cwd="/x", **({"wait_s": 0.0} | how))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def calling(*ids: str) -> dict[str, Any]:
    blocks = [{"type": "toolCall", "id": each, "name": "pay", "arguments": {}} for each in ids]
    return {"role": "assistant", "content": blocks}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "toolResult", "toolCallId": call_id, "toolName": "pay", "content": "paid", "isError": False}


def texts(session: CoreMindSession, lane: str = "main") -> list[Any]:
    return [each.content for each in session.view(lane).messages]


def raw(store: SessionStore, session_id: str = "talk") -> bytes:
    return b"".join(store.read(session_id))


# ------------------------------------------------------------------------------------------------------------ opening


def test_a_session_is_new_only_the_first_time_and_its_messages_come_back_in_order(store: SessionStore) -> None:
    """#177 Created, said, opened again, said again: a conversation is what was said, once."""
    with opened(store) as first:
        ids = first.append(user("one"), user("two"))
    with opened(store) as second:
        ids += second.append(user("three"))
        found = texts(second)

    assert ((True, False), ["one", "two", "three"], 3) == ((first.is_new, second.is_new), found, len(set(ids)))


def test_an_empty_session_that_is_opened_again_shows_nothing(store: SessionStore) -> None:
    """#178 Opening says nothing."""
    opened(store).close()
    before = raw(store)

    with opened(store) as session:
        assert ([], before) == (texts(session), raw(store))


def test_the_watermark_is_zero_before_the_first_entry_and_grows_with_each(store: SessionStore) -> None:
    """#185 A run says by it where it began."""
    with opened(store) as session:
        marks = [session.watermark]
        for number in range(3):
            session.append(user(str(number)))
            marks.append(session.watermark)

    assert [0, 1, 2, 3] == marks


@pytest.mark.parametrize("session_id", ["", "../x", "a b", "con", "é"])
def test_an_id_that_is_no_name_of_a_file_is_refused(store: SessionStore, session_id: str) -> None:
    """#179 It is the only thing that a path is made of."""
    with pytest.raises(UsageError) as caught:
        opened(store, session_id)

    assert ("invalid_session_id", []) == (caught.value.code, list(store.ids()))


def test_a_second_writer_is_refused_until_the_first_one_ends(store: SessionStore) -> None:
    """#182 #186 C99 Two that write one conversation at once would fork it."""
    first = opened(store)

    with pytest.raises(Held) as caught:
        opened(store)
    first.close()
    with opened(store) as second:
        assert ("session_open_locked", False) == (caught.value.code, second.is_new)


def test_what_is_not_there_is_begun_only_when_that_is_wanted(store: SessionStore) -> None:
    """Who looks for a conversation must not be given an empty one."""
    with pytest.raises(NotFound, match="there is no session 'talk'"):
        opened(store, create=False)

    assert [] == list(store.ids())


def test_an_old_session_is_migrated_when_it_is_opened_to_be_written(tmp_path: Path) -> None:
    """#190 Its bytes are kept, its messages are there, and what is said next stands behind them."""
    store = FileSessionStore(tmp_path / ".clew")
    folder = tmp_path / ".clew" / "sessions"
    folder.mkdir(parents=True)
    (folder / "s1.jsonl").write_bytes(TALK)

    with opened(store, "s1") as session:
        session.append(user("four"))
        found = texts(session)

    assert (["one", "two", "three", "four"], TALK) == (found, (folder / "s1.jsonl.v3.backup").read_bytes())


# ------------------------------------------------------------------------------------------------------------- saying


def test_what_is_said_again_at_the_same_place_stands_once(store: SessionStore) -> None:
    """A resumed run says everything once more."""
    with opened(store) as session:
        session.append_of("r1", "turn-0", 0, user("one"))
    before = raw(store)
    with opened(store) as session:
        again = session.append_of("r1", "turn-0", 0, {**user("one"), "timestamp": 77})

    assert ("r1:turn-0:0", before) == (again, raw(store))


def test_an_equal_message_of_an_append_of_several_stands_once(store: SessionStore) -> None:
    """Also after the bytes say in which append it came."""
    with opened(store) as session:
        session.append(user("one"), user("two"), ids=["a", "b"])
        before = raw(store)
        session.append(user("one"), user("two"), ids=["a", "b"])

    assert before == raw(store)


def test_something_else_at_the_same_place_is_a_conflict(store: SessionStore) -> None:
    """An agent that says something else on a replay is not the one that was recorded."""
    with opened(store) as session:
        session.append_of("r1", "turn-0", 0, user("one"))
        before = raw(store)
        with pytest.raises(Refused) as caught:
            session.append_of("r1", "turn-0", 0, user("two"))

        assert ("session_entry_conflict", before, ["one"]) == (caught.value.code, raw(store), texts(session))


def test_members_that_are_not_set_are_left_out(store: SessionStore) -> None:
    """#181 A tool result with such a member made the append fail."""
    with opened(store) as session:
        session.append({**user("one"), "details": msgspec.UNSET, "usage": {"input": 1, "more": msgspec.UNSET}})

    line = json.loads(raw(store).splitlines()[-1])
    assert {"role": "user", "content": "one", "usage": {"input": 1}} == line["message"]


def test_what_is_not_json_is_refused_before_anything_is_written(store: SessionStore) -> None:
    """Half a message would be kept for ever."""
    with opened(store) as session:
        before = raw(store)
        with pytest.raises(UsageError, match="content"):
            session.append(user("one"), {"role": "user", "content": [object()]})

        assert before == raw(store)


@pytest.mark.parametrize(
    "deed",
    [
        lambda session: session.append(user("x"), lane="none"),
        lambda session: session.label("none", "x"),
        lambda session: session.move("none"),
        lambda session: session.append({"content": "no role"}),
    ],
    ids=["lane", "label", "move", "role"],
)
def test_a_line_that_may_not_come_next_is_not_written(store: SessionStore, deed: Any) -> None:
    """The rules are those of the reader: what is written can be read."""
    with opened(store) as session:
        session.append(user("one"))
        before = raw(store)
        with pytest.raises(Refused) as caught:
            deed(session)

        assert ("session_line_refused", before, False) == (caught.value.code, raw(store), session.poisoned)


def test_an_append_that_is_too_large_is_refused(store: SessionStore) -> None:
    """What nobody could tell from damage after a power cut is not written."""
    with opened(store) as session:
        before = len(raw(store))
        with pytest.raises(Refused) as caught:
            session.append(user("x" * (33 << 20)))

        assert ("append_too_large", before) == (caught.value.code, len(raw(store)))


def test_lanes_labels_title_and_settings_are_as_any_reader_finds_them(store: SessionStore) -> None:
    """Our files are of a format that others read."""
    with opened(store) as session:
        one, two = session.append(user("one"), user("two"))
        session.move(one, lane="side")
        session.append(user("aside"), lane="side")
        session.label(one, "here")
        session.label(two, "gone")
        session.label(two, None)
        session.rename("Title")
        session.set_model("anthropic", "claude-test")
        session.set_level("high")
        session.set_tools(["read"])
        session.note("mine", {"n": 1})
        sides = texts(session), texts(session, "side")

    data = raw(store)
    found = view(read_session(data), lambda at, size: data[at : at + size])
    assert (["one", "two"], ["one", "aside"]) == sides
    assert ({one: "here"}, "Title", "anthropic/claude-test", "high", ("read",)) == (
        found.labels, found.title, found.model, found.level, found.tools,
    )  # fmt: skip


def test_the_view_at_an_entry_is_what_was_said_until_then(store: SessionStore) -> None:
    """A replay hears at each place what was heard there before."""
    with opened(store) as session:
        ids = session.append(user("one"), user("two"), user("three"))
        heard = [[each.content for each in session.view_at(name).messages] for name in (None, ids[0], ids[1])]
        with pytest.raises(NotFound, match="shows no entry 'none'"):
            session.view_at("none")

        assert ([[], ["one"], ["one", "two"]], ["one", "two", "three"]) == (heard, texts(session))


# --------------------------------------------------------------------------------------------------------- compaction


def test_a_summary_takes_the_place_of_what_was_said_and_all_entries_stay(store: SessionStore) -> None:
    """#184 Nothing is lost by it: whoever wants to know can read all."""
    with opened(store) as session:
        ids = session.append(*map(user, "abcd"))
        session.compact("a and b", keep=ids[2], tokens_before=90)
        session.append(user("e"))
        found = session.view()

    assert (["compactionSummary", "user", "user", "user"], 5) == (
        [each.role for each in found.messages], found.totals.messages,
    )  # fmt: skip
    assert 6 == found.entries


def test_an_empty_summary_is_not_published(store: SessionStore) -> None:
    """C106 Nearly half of the summaries of one product were empty, and the conversation was gone."""
    with opened(store) as session:
        session.append(user("a"))
        before = raw(store)
        with pytest.raises(Refused) as caught:
            session.compact("  \n")

        assert ("empty_summary", before) == (caught.value.code, raw(store))


def test_a_summary_never_parts_a_call_and_its_result(store: SessionStore) -> None:
    """C09 What stays begins before the call, and with an open call there is no summary at all."""
    with opened(store) as session:
        session.append(user("a"), calling("c1", "c2"))
        before = raw(store)
        with pytest.raises(Refused) as caught:
            session.compact("too early")
        assert ("compaction_splits_call", before) == (caught.value.code, raw(store))
        ids = session.append(result("c1"), result("c2"), user("b"))
        session.compact("short", keep=ids[1])

        found = [each.role for each in session.view().messages]

    assert ["compactionSummary", "assistant", "toolResult", "toolResult", "user"] == found


def test_what_is_to_stay_must_be_there(store: SessionStore) -> None:
    """A tail that cannot be found would be empty, and the loss permanent."""
    with opened(store) as session:
        session.append(user("a"))
        with pytest.raises(NotFound) as caught:
            session.compact("short", keep="none")

    assert "unknown_entry" == caught.value.code


@pytest.mark.parametrize(("tokens", "summaries"), [(91, 1), (90, 0)])
def test_above_the_window_without_its_reserve_the_context_is_summed_up(
    store: SessionStore, tokens: int, summaries: int
) -> None:
    """#183 And below it nothing happens."""
    heard: list[int] = []

    def summarise(said: Sequence[Said]) -> str:
        heard.append(len(said))
        return f"{len(said)} messages"

    with opened(store) as session:
        session.append(*map(user, "abcdef"))
        session.compact_when(summarise, tokens=tokens, window=100, reserve=10, keep=2)
        found = [each.content for each in session.view().messages]

    assert ([4] * summaries, ["4 messages", "e", "f"] if summaries else list("abcdef")) == (heard, found)


def test_whoever_asks_for_a_summary_makes_it_with_what_is_his_and_only_its_text_is_kept(store: SessionStore) -> None:
    """#189 The session knows no model and no credential, so none can be used by mistake, and none is stored."""
    used: list[str] = []

    class Model:
        credential = "sk-secret"

        def summarise(self, said: Sequence[Said]) -> str:
            used.append(self.credential)
            return "short"

    with opened(store) as session:
        session.append(*map(user, "abcdef"))
        session.compact_when(Model().summarise, tokens=100, window=90, reserve=10)

    assert (["sk-secret"], False) == (used, b"sk-secret" in raw(store))


def test_a_short_conversation_is_not_summed_up(store: SessionStore) -> None:
    """There is nothing to leave out."""
    with opened(store) as session:
        session.append(user("a"))

        assert session.compact_when(lambda said: "x", tokens=99, window=9, reserve=0) is None


# ---------------------------------------------------------------------------------------------- projection, judgement


def test_an_interrupted_call_is_told_as_unknown_and_the_file_stays(store: SessionStore) -> None:
    """C01 C02 The provider gets exactly one result for it, and says no more that the conversation is broken."""
    with opened(store) as session:
        session.append(user("pay"), calling("c1"), user("and now?"))
        before = raw(store)

        found = session.projection()
        orphans = session.judgement().orphan_calls

    assert (["user", "assistant", "toolResult", "user"], before) == ([m["role"] for m in found.messages], raw(store))
    assert (["c1"], ["c1"]) == ([each.call_id for each in orphans], [each.call_id for each in found.repairs])


def test_trying_again_adds_no_orphan(store: SessionStore) -> None:
    """C05 One user's store held 311 orphan calls; each retry had added more."""
    with opened(store) as session:
        session.append_of("r1", "turn-1", 0, calling("c1"))
        for _ in range(3):
            session.append_of("r1", "turn-1", 0, calling("c1"))
            session.projection()

        assert 1 == len(session.judgement().orphan_calls)


def test_results_stand_in_the_order_of_the_calls_whatever_came_first(store: SessionStore) -> None:
    """C10 C11 Five side by side give five results, from what is kept here alone."""
    calls = ["c1", "c2", "c3", "c4", "c5"]
    with opened(store) as session:
        session.append(calling(*calls), *map(result, reversed(calls)))

        found = session.projection().messages

    assert calls == [message["toolCallId"] for message in found[1:]]


def test_a_session_that_vanished_ends_the_writer(store: SessionStore) -> None:
    """The next append must not begin it anew without its header, as if all were well."""
    session = opened(store)
    session.append(user("one"))
    if isinstance(store, MemorySessionStore):
        store.implant("talk", None)
    else:
        Path(store.locate("talk")).unlink()

    with pytest.raises(Storage) as caught:
        session.append(user("two"))
    session.close()

    assert ("session_replaced", True, []) == (caught.value.code, session.poisoned, list(store.ids()))


def test_after_a_failed_append_nothing_more_is_said() -> None:
    """What stands at the end is not known; who opens it anew finds out."""
    store = MemorySessionStore()
    session = opened(store)
    with store.failing("sync"), pytest.raises(Storage):
        session.append(user("one"))

    with pytest.raises(Storage) as caught:
        session.append(user("two"))
    session.close()

    assert "fact_ledger_poisoned" == caught.value.code


def test_latest_is_what_stands_last_whatever_the_clock_says() -> None:
    """C113 A clock that steps back by an hour changes nothing but the times."""
    store, clock = MemorySessionStore(), SetClock()
    with open_session(store, clock, "talk", cwd="/x") as session:
        session.append(user("one"))
        clock.advance(-3600)
        session.append(user("two"))

        assert ["one", "two"] == texts(session)
