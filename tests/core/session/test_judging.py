"""What is to be said of a session as a whole."""

from clew.core.session.judging import judge
from tests.core.session.scribe import at, calling, result, session, state_of, user


def test_a_call_without_a_result_is_an_orphan_with_its_place() -> None:
    """C01, C05: whoever looks must find each, and looking changes nothing."""
    found = judge(state_of(session(user("a"), calling("b", "a", "c1", "c2"), result("r", "b", "c1"))))

    assert [("c2", "pay", "b", 3)] == [
        (each.call_id, each.tool, each.entry_id, each.line) for each in found.orphan_calls
    ]


def test_two_results_of_a_call_are_reported() -> None:
    """They may disagree about money."""
    data = session(calling("b", None, "c1"), result("r", "b", "c1"), result("s", "r", "c1"))
    found = judge(state_of(data))

    assert ([("c1", "s", 4)], []) == (
        [(each.call_id, each.entry_id, each.line) for each in found.double_results],
        list(found.orphan_calls),
    )


def test_a_result_without_its_call_is_reported() -> None:
    """C06: it is not sent to a model."""
    found = judge(state_of(session(result("r", None, "c1"))))

    assert [("c1", "r")] == [(each.call_id, each.entry_id) for each in found.stray_results]


def test_a_compaction_between_a_call_and_its_result_is_a_warning() -> None:
    """C09: reported, kept, and put right in the projection alone."""
    data = session(
        calling("b", None, "c1"), at("compaction", "c", "b", summary="s", firstKeptEntryId="b"), result("r", "c", "c1")
    )
    found = judge(state_of(data))

    assert [("compaction_between", 3, ("c", "c1"))] == [(each.code, each.line, each.ids) for each in found.warnings]


def test_what_was_odd_while_reading_is_a_warning() -> None:
    """A reader that only shows must still say what it could not follow."""
    found = judge(state_of(session(at("from_the_future", "f", None))))

    assert ["unknown_type"] == [each.code for each in found.warnings]


def test_an_older_summary_in_what_a_later_one_keeps_is_said() -> None:
    """Of the two programs of old one shows it and the other does not; whoever looks must know which it is."""
    entries = [
        user("a"), at("compaction", "c", "a", summary="one", firstKeptEntryId="a"), user("b", "c"),
        at("compaction", "d", "b", summary="two", firstKeptEntryId="c"), user("e", "d"),
        at("compaction", "f", "e", summary="three", firstKeptEntryId="e"),
    ]  # fmt: skip
    plain, moved = (
        [each for each in judge(state_of(data)).warnings if each.code == "older_summary"]
        for data in (session(*entries), session(*entries, metadata={}))
    )

    assert [("d", "c")] == [each.ids for each in plain] == [each.ids for each in moved]
    assert ("it is not shown" in plain[0].text, "it is shown" in moved[0].text) == (True, True)
