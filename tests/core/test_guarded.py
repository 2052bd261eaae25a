"""The walk of a call whose paths are kept: what it appends on each path, and what it never starts."""

from typing import Any

import msgspec
import pytest

from clew.core import effect
from clew.core.answers import Answer, ErrorAnswer, Unrecorded
from clew.core.capability import Capability
from clew.core.checkpoint import Whole
from clew.core.guarded import BUILT_IN, GuardedWalk
from clew.core.needs import (
    Answered,
    Append,
    Call,
    Cancelled,
    Closing,
    End,
    Guard,
    Guarded,
    Interrupted,
    Look,
    Looked,
    Need,
    Probe,
    ProbeFacts,
    Raised,
    Returned,
    Unguarded,
)
from clew.core.records import Draft
from clew.core.review import CannotTell, DidNotHappen, Happened
from tests.core.test_effect import Script, Walked, drive, word
from tests.histories import CHARGE, EDIT, NEW, OLD, Scribe, arguments, facts, kept, review

KEPT = Guarded({"a": OLD}, {"a": NEW}, "written")
FAILED = Raised("OSError", "no")
OPENED = ["tool_call", "capability_resolved", "kept", "started"]
RETURNED = ["step_output", "committed", "left", "tool_result"]
SEEN = Looked({"a": NEW})
REFUSED = Unguarded("'../a' is not a path of the workspace", refused=True)
FULL = Unguarded("the disk is full")
ERROR = ["step_output", "tool_result"]


class Files(Script):
    """Speaks for the world, and for the files: kept and looked at as it was told to say."""

    def __init__(self, *said: Any, guard: Any = KEPT, look: Looked | None = SEEN) -> None:
        super().__init__(*said)
        self.guard, self.look = guard, look

    def __call__(self, need: Need) -> Any:
        if isinstance(need, Guard):
            return self.guard
        return self.look if isinstance(need, Look) else super().__call__(need)


def walked(
    *said: Any, guard: Any = KEPT, look: Looked | None = SEEN, capability: Capability = EDIT,
    earlier: tuple[list[Any], ...] = (), **options: Any,
) -> Walked:  # fmt: skip
    """A guarded walk of the first call of a run, with appends that the journal takes."""
    scribe = Scribe().born()
    for append in earlier:
        scribe.say(*append)
    walk = GuardedWalk(facts(1, capability), arguments(), recorded=bool(earlier), **options)
    return drive(walk.run(), Files(*said, guard=guard, look=look), scribe=scribe)


def words(found: Walked) -> list[list[str]]:
    """Every append in words; a checkpoint's first record is `kept`, its second `left`."""
    return [[_word(said) for said in append] for append in found.appends]


def _word(said: Any) -> str:
    if isinstance(said, Draft):
        return "left" if "after" in said.payload else "kept"
    return word(said)


PATHS: dict[str, tuple[list[Any], dict[str, Any], list[list[str]], End]] = {
    "it returned": ([Returned(1)], {}, [OPENED, RETURNED], Answered(Answer(1))),
    "it returned, and nobody saw how": (
        [Returned(1)],
        {"look": None},
        [OPENED, ["step_output", "committed", "tool_result"]],
        Answered(Answer(1)),
    ),
    "its answer cannot be kept": (
        [Returned("x" * 20_000), False],
        {},
        [OPENED, ["committed, failed", "left"]],
        Closing("result_not_kept", "the answer could not be kept beside the journal"),
    ),
    "its answer is secret": (
        [Returned("key")],
        {"secret": True},
        [OPENED, ["committed, withheld", "left"]],
        Answered(Answer("key")),
    ),
    "it knows that nothing happened": (
        [Raised("CardDeclined", "no", nothing_happened=True)],
        {},
        [OPENED, ["unknown", "effect_review", *ERROR]],
        Answered(Answer(None, ErrorAnswer("nothing_happened", "no"))),
    ),
    "it raised, and all is as it said": (
        [FAILED, Happened("written")],
        {},
        [OPENED, ["unknown", "left"], ["effect_review", "step_output"]],
        Answered(Answer("written")),
    ),
    "it raised, and all is as it said, which has no result": (
        [FAILED, Happened()],
        {},
        [OPENED, ["unknown", "left"], ["effect_review"]],
        Answered(Unrecorded("edit happened, as settled by checkpoint; the result was not recorded")),
    ),
    "it raised, and the files stand neither way": (
        [FAILED, CannotTell("'a' is not as it was")],
        {},
        [OPENED, ["unknown", "left"]],
        Closing("unknown_effect", "'a' is not as it was"),
    ),
    "it raised, and the files cannot be looked at": (
        [FAILED, CannotTell("denied", 5.0)],
        {},
        [OPENED, ["unknown", "left"]],
        Closing("unknown_effect", "denied", 5.0),
    ),
    "it raised, and all is as it was": (
        [FAILED, DidNotHappen(), Returned(1)],
        {},
        [OPENED, ["unknown", "left"], ["effect_review"], ["kept", "started"], RETURNED],
        Answered(Answer(1)),
    ),
    "it was cancelled": (
        [Cancelled(), CannotTell("still running")],
        {},
        [OPENED, ["unknown"]],
        Closing("unknown_effect", "still running"),
    ),
    "it was cancelled before its body began": (
        [Cancelled(before_start=True)],
        {},
        [OPENED, ["unknown", "effect_review"]],
        Interrupted(),
    ),
    "a path is refused": (
        [],
        {"guard": REFUSED},
        [["tool_call", "capability_resolved", "not_started", *ERROR]],
        Answered(Answer(None, ErrorAnswer("nothing_happened", REFUSED.message))),
    ),
    "no checkpoint can be kept": ([], {"guard": FULL}, [], Closing("checkpoint_failed", FULL.message)),
    "it was interrupted while its paths were kept": ([], {"guard": None}, [], Interrupted()),
    "an effect outside raised": (
        [FAILED],
        {"capability": CHARGE},
        [OPENED, ["unknown", "left"]],
        Closing("unknown_effect", "OSError: no"),
    ),
    "a command that may have touched anything raised": (
        [FAILED],
        {"guard": Guarded(None, whole=Whole("c" * 64, 9, 1)), "look": Looked({"a": NEW}, {"a": OLD})},
        [OPENED, ["unknown", "left"]],
        Closing("unknown_effect", "OSError: no"),
    ),
}


@pytest.mark.parametrize("name", PATHS)
def test_each_path_appends_this_and_ends_so(name: str) -> None:
    """#134: order is what a death leaves behind, and no checkpoint means that nothing started."""
    said, options, appends, end = PATHS[name]

    found = walked(*said, **options)

    assert (appends, end) == (words(found), found.end)


@pytest.mark.parametrize("name", PATHS)
def test_the_body_runs_only_behind_a_kept_checkpoint(name: str) -> None:
    """Promise 5 for files: what cannot be put back is not begun."""
    said, options, _, _ = PATHS[name]
    needs = walked(*said, **options).needs
    starts = [number for number, need in enumerate(needs) if isinstance(need, Call)]

    assert all(isinstance(needs[number - 2], Guard) and isinstance(needs[number - 1], Append) for number in starts)


AGAIN = (kept(facts(1, EDIT)),)


@pytest.mark.parametrize("guard", [REFUSED, FULL])
def test_an_open_attempt_that_cannot_be_kept_again_stays_open(guard: Unguarded) -> None:
    """To tell the agent that nothing happened would be a lie: the attempt before may have."""
    found = walked(guard=guard, earlier=AGAIN, attempt=1, rerun=True)

    assert ([], Closing("unknown_effect", guard.message)) == (found.appends, found.end)


def test_an_interruption_while_an_open_attempt_is_kept_again_leaves_it_open() -> None:
    """Nobody knows more of it than before."""
    found = walked(guard=None, earlier=AGAIN, attempt=1, rerun=True)

    assert ([], Closing("unknown_effect", "interrupted")) == (found.appends, found.end)


def test_a_settled_attempt_whose_next_one_is_refused_is_told_without_a_receipt() -> None:
    """Under one key nothing follows a receipt that says that it did not start."""
    settled = [review(facts(1, EDIT), "did_not_happen")]
    found = walked(guard=REFUSED, earlier=(*AGAIN, settled), attempt=1)

    assert [ERROR] == words(found)


def test_its_own_probe_is_asked_before_the_files() -> None:
    """Who wrote one knows better."""
    probe = ProbeFacts("look", 0.0)
    found = walked(FAILED, Happened(1), probe=probe)
    reviewed = found.appends[-1][0]

    assert ("probe", "probe:look") == (reviewed["source"], reviewed["by"])


def test_a_settlement_by_the_files_says_so() -> None:
    """Nobody looked; the checkpoint did."""
    found = walked(FAILED, Happened(1))
    reviewed = found.appends[-1][0]

    assert ("checkpoint", "checkpoint", "checkpoint") == (
        reviewed["source"], reviewed["by"], reviewed["evidence"][0]["kind"],
    )  # fmt: skip


def test_after_a_death_the_files_are_asked_before_anything_starts() -> None:
    """The walk of a later leg begins with the doubt of the last one."""
    found = walked(Happened("written"), earlier=AGAIN, attempt=1, probe=BUILT_IN, doubt_ms=1)

    assert ([Probe(1)], [["effect_review", "step_output"]]) == (
        [need for need in found.needs if isinstance(need, Probe)], words(found),
    )  # fmt: skip


def test_files_that_stand_neither_way_are_asked_once() -> None:
    """A minute of waiting would tell nothing new."""
    found = drive(effect.ask(BUILT_IN, 1, 0), Script(CannotTell("neither")))

    assert 1 == len([need for need in found.needs if isinstance(need, Probe)])


def test_the_look_says_whether_the_body_raised() -> None:
    """Only then something that it began may still be at work."""
    looks = [need for said in (Returned(1), FAILED) for need in walked(said, CannotTell("")).needs]

    assert [False, True] == [need.raised for need in looks if isinstance(need, Look)]
    assert msgspec.UNSET is Guarded({}).result
