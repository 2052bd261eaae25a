"""What a prune may drop: what nobody refers to, and contents of runs that never go on; and nothing else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core import events
from clew.core.answers import Answer, beside
from clew.core.artifacts import blocked, stored
from clew.core.compose import Move
from clew.core.pruning import DAY_MS, Drop, Plan, Rule, Uses, choose, over
from clew.core.records import Record
from clew.core.times import format_ms
from tests.histories import BORN_MS, Scribe, completed, facts, foreign, paused, read, returned, started

A, B, C, D, E = (digit * 64 for digit in "abcde")
CALL = facts()
NOW = BORN_MS + 100 * DAY_MS


def seen(data: bytes) -> Uses:
    """What a journal refers to."""
    uses = Uses("r1")
    for record, _ in read(data):
        uses.see(record)
    return uses


def record(kind: Any, payload: dict[str, Any]) -> Record:
    """A record of ours as a later clew may write it."""
    return Record(1, "r1", 9, "n-9", format_ms(BORN_MS), kind, payload, "f" * 64, 9)


def event(kind: str, **members: Any) -> Record:
    return record("event", {"event": {"type": kind, **members}})


def begun(*records: Record, **start: Any) -> Uses:
    """The uses of a journal that begins with our start and goes on with these."""
    uses = Uses("r1")
    for each in (record("start", {"leg": {}, **start}), *records):
        uses.see(each)
    return uses


def long_answer(digest: str) -> dict[str, Any]:
    return beside("plan-1", Answer("x"), '"x', digest, 20_000)


# What a journal refers to.


def test_a_journal_refers_to_its_artifacts_and_long_answers() -> None:
    """What was blocked was never kept, and what a record merely mentions is no reference."""
    scribe = Scribe().born()
    scribe.say(stored("a.txt", A, 1, "text/plain", None), blocked("b.txt", 1, "text/plain"), long_answer(B))
    scribe.say(*started(CALL))
    scribe.say(*returned(CALL, value=C))
    scribe.say(*completed())
    uses = seen(scribe.data)

    assert ({A}, {B}, set(), scribe.at_ms - 1000, True) == (
        uses.contents, uses.answers, uses.held, uses.ended_ms, uses.over,
    )  # fmt: skip


def test_a_run_that_is_paused_may_go_on() -> None:
    """However long ago that was."""
    scribe = Scribe().born()
    scribe.say(*paused())

    assert (None, False) == (seen(scribe.data).ended_ms, seen(scribe.data).over)


def test_the_answer_of_a_call_with_a_business_key_is_for_other_runs_too() -> None:
    """Another run that proposes this key is told this very answer."""
    uses = begun(
        event("tool_call", stepId="pay-1", businessKey={"sha256": D}), event("tool_call", stepId="pay-2"),
        event("step_output", stepId="pay-1", blob={"sha256": A}),
        event("step_output", stepId="pay-2", blob={"sha256": B}),
    )  # fmt: skip

    assert ({A}, {B}) == (uses.held, uses.answers)


def test_a_checkpoint_refers_to_all_that_its_records_name_and_its_manifest_to_more() -> None:
    """Whatever the members are called: a digest that is not seen is a file that cannot be put back."""
    uses = begun(
        record("checkpoint", {"paths": [{"path": "a", "sha256": A}], "after": [{"path": "a", "sha256": B}]}),
        record("checkpoint", {"manifest": {"sha256": C, "count": 2}}),
        event("effect_review", stepId="x", evidence=[D]),
    )
    uses.list(b'{"paths":[{"path":"b","sha256":"' + D.encode() + b'"}]}')

    assert ({A, B, C, D}, {C}) == (uses.contents, uses.manifests)


def test_what_is_only_expected_or_found_was_not_kept() -> None:
    """Whoever looks for what is missing must not miss it; who drops keeps it all the same."""
    uses = begun(
        record("checkpoint", {"paths": [{"path": "a", "sha256": A}], "expects": [{"path": "a", "sha256": B}]}),
        record("checkpoint", {"after": [{"path": "a", "sha256": C}, {"path": "b", "sha256": E}], "unkept": ["b"]}),
        event("restored", state="started", found=[{"path": "a", "sha256": D}]),
    )

    assert ({A, C}, {A, B, C, D, E}) == (uses.kept, uses.contents)


def test_a_restore_that_was_cut_off_keeps_its_run_from_being_over() -> None:
    """Who does it again needs every content that it names."""
    end = record("finish", {})
    cut_off = begun(end, event("restored", state="started", wanted=[{"sha256": A}]))
    done = begun(end, event("restored", state="started"), event("restored", state="ended", paths=[{"sha256": A}]))

    assert ((False, {A}), (True, {A})) == ((cut_off.over, cut_off.contents), (done.over, done.contents))


def test_the_names_of_cut_ends_are_known_where_a_record_names_them() -> None:
    """A piece that no record names was left by a death, and is the only copy of these bytes."""
    one, two = "torn-9-0123456789ab", "torn-9-ba9876543210"
    cut = {"keptAs": one, "earlier": [{"keptAs": two}]}
    uses = begun(record("resume", {"tailRepaired": cut}), record("resume", {}), record("resume", {"tailRepaired": 7}))

    assert {one, two} == uses.pieces


def test_a_journal_that_is_not_ours_holds_whatever_it_names() -> None:
    """Nobody here knows what its members mean."""
    uses = Uses("run-1")
    for each, _ in foreign(("start", {"configFingerprint": A}), ("event", {"anything": B}), ("finish", {})):
        uses.see(each)

    assert ({A, B}, False) == (uses.held, uses.over)


def test_a_digest_is_64_digits_and_no_part_of_more() -> None:
    """Half of a longer number is none."""
    uses = begun(record("checkpoint", {"a": "a" * 65, "b": "b" * 63, "c": f"x{C}-"}))

    assert {C} == uses.contents


# Who is over.


def ended(run_id: str, day: float = 0, parent: str = "", **what: Any) -> Uses:
    return Uses(run_id, ended_ms=int(BORN_MS + day * DAY_MS), parent=parent, **what)


def going(run_id: str, parent: str = "", **what: Any) -> Uses:
    return Uses(run_id, parent=parent, **what)


def test_a_child_is_over_when_its_family_is() -> None:
    """A parent that goes on may ask what its child left."""
    found = over(
        [
            going("p"), ended("c", parent="p"), ended("g", parent="c"), ended("q"), ended("d", parent="q"),
            ended("o", parent="gone"), going("e", parent="q"),
        ]
    )  # fmt: skip

    assert {"q", "d", "o"} == found


def test_a_family_that_goes_round_in_a_circle_ends_the_question() -> None:
    """No journal of ours says so; a made-up one must not hang the command."""
    assert {"a", "b"} == over([ended("a", parent="b"), ended("b", parent="a")])


# What goes.


def plan(stock: dict[str, int], uses: list[Uses], **rule: Any) -> Plan:
    return choose(stock, uses, Rule(NOW, **rule))


def dropped(found: Plan) -> dict[str, str]:
    return {each.sha256: each.why for each in found.drops}


def test_what_nobody_refers_to_goes_whatever_is_asked() -> None:
    """A crash between a blob and its record leaves it."""
    found = plan({A: 10, B: 5}, [going("r1", contents={B})])

    assert (Drop(A, "unreferenced", (), 10),) == found.drops
    assert ({"may_go_on": (1, 5)}, 15, 5) == (found.kept, found.before_bytes, found.after_bytes)


@pytest.mark.parametrize("what", ["contents", "answers", "held"])
def test_a_run_that_may_go_on_keeps_all_it_refers_to(what: str) -> None:
    """Also where a run that has ended refers to the same bytes."""
    user = going("r1")
    setattr(user, what, {A})
    found = plan({A: 10}, [user, ended("r2", contents={A})], keep_days=0, answers=True)

    assert ({}, {"may_go_on": (1, 10)}) == (dropped(found), found.kept)


def test_contents_stay_when_nothing_is_asked_for() -> None:
    """A bare `clew prune` takes away nothing that anybody could want."""
    assert {"not_asked": (1, 10)} == plan({A: 10}, [ended("r1", contents={A})]).kept


def test_retention_counts_from_the_end_of_the_last_run_that_has_it() -> None:
    """Bytes are shared, so the youngest user decides."""
    uses = [ended("r1", 1, contents={A, B}), ended("r2", 99, contents={B}), ended("r3", 1, contents={C})]
    found = plan({A: 1, B: 1, C: 1}, uses, keep_days=7)

    assert ({A: "retention", C: "retention"}, {"recent": (1, 1)}) == (dropped(found), found.kept)


def test_a_quota_takes_the_oldest_until_there_is_room() -> None:
    """And not one more."""
    uses = [ended("r1", 3, contents={A}), ended("r2", 1, contents={B}), ended("r3", 2, contents={C})]
    found = plan({A: 10, B: 10, C: 10}, uses, quota_bytes=15)

    assert ([(B, "quota"), (C, "quota")], 10) == ([(each.sha256, each.why) for each in found.drops], found.after_bytes)
    assert {"within_quota": (1, 10)} == found.kept


def test_a_quota_never_reaches_into_the_days_that_are_kept() -> None:
    """The two together: so long for certain, and beyond it no more than so much."""
    uses = [ended("r1", 1, contents={A}), ended("r2", 99, contents={B})]
    found = plan({A: 10, B: 10}, uses, quota_bytes=0, keep_days=7)

    assert ({A: "quota"}, {"recent": (1, 10)}, 10) == (dropped(found), found.kept, found.after_bytes)


@pytest.mark.parametrize(("answers", "expected"), [(False, {}), (True, {A: "retention"})])
def test_long_answers_go_only_when_they_are_named(answers: bool, expected: dict[str, str]) -> None:
    """They are what the agent was told; one that is also an artifact is still an answer."""
    found = plan({A: 10}, [ended("r1", answers={A}, contents={A})], keep_days=0, answers=answers)

    assert expected == dropped(found)


def test_an_answer_under_a_business_key_never_goes() -> None:
    """Receipts and what stands for them are kept whatever is asked."""
    found = plan({A: 10}, [ended("r1", held={A})], keep_days=0, quota_bytes=0, answers=True)

    assert {"answer": (1, 10)} == found.kept


def test_what_is_missing_already_is_not_dropped_again() -> None:
    """A prune that was killed is done again, over what is left."""
    assert () == plan({}, [ended("r1", contents={A}, answers={B}, held={C})], keep_days=0, answers=True).drops


DIGESTS = st.sampled_from([A, B, C, D])
USES = st.builds(
    Uses,
    st.sampled_from(["r1", "r2", "r3", "r4"]),
    contents=st.sets(DIGESTS), answers=st.sets(DIGESTS), held=st.sets(DIGESTS, max_size=1),
    ended_ms=st.none() | st.integers(BORN_MS, NOW), parent=st.sampled_from(["", "r1", "r2"]),
)  # fmt: skip
RULES = st.builds(Rule, st.just(NOW), st.none() | st.integers(0, 120), st.none() | st.integers(0, 100), st.booleans())


@given(st.dictionaries(DIGESTS, st.integers(0, 50)), st.lists(USES, unique_by=lambda each: each.run_id), RULES)
def test_whatever_is_asked_nothing_that_is_needed_goes(stock: dict[str, int], uses: list[Uses], rule: Rule) -> None:
    """Promise 2, by another hand: no digest of a run that may go on, none of a key, no answer that was not named."""
    found = choose(stock, uses, rule)
    gone = {each.sha256 for each in found.drops}
    needed = {digest for each in uses for digest in each.held}
    needed |= {digest for each in uses if each.ended_ms is None for digest in each.contents | each.answers}
    if not rule.answers:
        needed |= {digest for each in uses for digest in each.answers}

    assert not gone & needed
    assert sum(stock.values()) - sum(each.stored_bytes for each in found.drops) == found.after_bytes
    assert found.after_bytes == sum(size for _, size in found.kept.values())
    assert choose({digest: size for digest, size in stock.items() if digest not in gone}, uses, rule).drops == ()


def test_a_run_with_an_open_operation_is_not_over_for_its_move_alone() -> None:
    """COMPLETE without its finish is a death amid the end: the next leg writes the rest."""
    scribe = Scribe().born()
    scribe.say(events.agent_end("done"), Move("COMPLETE"))

    assert not seen(scribe.data).over
