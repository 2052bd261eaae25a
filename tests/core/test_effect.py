"""One effect, walked by a scripted driver: what is appended, in which order, and what no driver can bring about."""

from collections.abc import Callable
from hashlib import sha256
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core import effect, events
from clew.core.answers import Answer, ErrorAnswer, Unrecorded, read_answer
from clew.core.capability import Capability
from clew.core.compose import Move
from clew.core.effect import Walk
from clew.core.events import CallFacts, Event
from clew.core.needs import (
    Allow,
    Answered,
    Append,
    Ask,
    Call,
    Cancelled,
    Closing,
    Deny,
    End,
    GaveUp,
    Halt,
    Hold,
    Interrupted,
    Need,
    Now,
    Probe,
    ProbeFacts,
    Raised,
    Returned,
    Save,
    Taken,
    Wait,
)
from clew.core.resume import Facts, prepare_run_resume
from clew.core.review import CannotTell, DidNotHappen, GiveUp, Happened
from clew.core.times import format_ms
from tests.histories import (
    BORN_MS,
    CHARGE,
    LOOK,
    PAY,
    TOOLS,
    Scribe,
    arguments,
    completed,
    facts,
    overconfident,
    prefixes,
    read,
    refold,
)
from tests.histories import review as review_of

BANK = ProbeFacts("find_payment", 30)
FAILED = Raised("ValueError", "no")
LONG = "x" * 20_000

OPENED = ["tool_call", "capability_resolved", "started"]
DOUBT = [OPENED, ["unknown"]]
ERROR = ["step_output", "tool_result"]


class Walked(NamedTuple):
    """A walk at its end: the end, every need in order, every append, and the blobs that were kept."""

    end: Any
    needs: list[Need]
    appends: list[tuple[Event, ...]]
    blobs: dict[str, bytes]

    @property
    def words(self) -> list[list[str]]:
        return [[word(event) for event in append] for append in self.appends]


def word(event: Event) -> str:
    """A receipt by its status, every other event by its type."""
    kept = event.get("persistence")
    return f"{event['status']}, {kept}" if kept else str(event.get("status", event["type"]))


def drive(walk: Any, answer: Callable[[Need], Any], *, scribe: Scribe | None = None) -> Walked:
    """Walk to the end. `answer` speaks for the world; clock, waits and appends are the driver's own."""
    at, needs, appends, blobs = [BORN_MS], list[Need](), list[tuple[Event, ...]](), dict[str, bytes]()
    steps, sent = walk.run() if isinstance(walk, Walk) else walk, cast(Any, None)
    while True:
        try:
            need = steps.send(sent)
        except StopIteration as stop:
            return Walked(stop.value, needs, appends, blobs)
        needs.append(need)
        if isinstance(need, Append):
            appends.append(need.events)
            if scribe is not None:
                scribe.at_ms = at[0]
                scribe.say(*need.events)
            sent = None
        elif isinstance(need, Now):
            sent = at[0]
        elif isinstance(need, Wait):
            at[0], sent = at[0] + round(need.seconds * 1000), None
        elif isinstance(need, Save):
            kept = answer(need)
            digest = sha256(need.data).hexdigest()
            blobs.update({digest: need.data} if kept else {})
            sent = digest if kept else None
        else:
            sent = answer(need)


class Script:
    """Says what it was told to say, each sort of need in its own order; allows and keeps whatever is not in it."""

    def __init__(self, *said: Any) -> None:
        self.said = list(said)

    def __call__(self, need: Need) -> Any:
        fits = {
            Ask: (Allow, Deny, Halt),
            Call: (Returned, Raised, Cancelled),
            Probe: (Happened, DidNotHappen, GiveUp, CannotTell),
            Save: (bool,),
            Hold: (Taken, Cancelled),
        }[type(need)]
        found = next((said for said in self.said if isinstance(said, fits)), None)
        if found is None:
            return Allow() if isinstance(need, Ask | Hold) else True
        if not isinstance(found, CannotTell):
            self.said.remove(found)
        return found


def walked(*said: Any, capability: Capability = PAY, **options: Any) -> Walked:
    """A walk of the first call of a run, with appends that the journal takes."""
    return drive(Walk(facts(1, capability), arguments(), **options), Script(*said), scribe=Scribe().born())


def resumed(*said: Any, earlier: list[list[Event]], capability: Capability = PAY, **options: Any) -> Walked:
    """A walk of a call that stands in the journal already."""
    scribe = Scribe().born()
    for append in earlier:
        scribe.say(*append)
    walk = Walk(facts(1, capability), arguments(), recorded=True, **options)
    return drive(walk, Script(*said), scribe=scribe)


# What is written on each path, in order.

PATHS: dict[str, tuple[list[Any], dict[str, Any], list[list[str]], End]] = {
    "it returned": (
        [Returned({"transfer": "T-77"})],
        {},
        [OPENED, ["step_output", "committed", "tool_result"]],
        Answered(Answer({"transfer": "T-77"})),
    ),
    "it says that it failed": (
        [Returned(3, failed="exit code 3")],
        {},
        [OPENED, ["step_output", "committed", "tool_result"]],
        Answered(Answer(3, ErrorAnswer("failed", "exit code 3", 3))),
    ),
    "its answer is a blob": (
        [Returned(LONG)],
        {},
        [OPENED, ["step_output", "committed", "tool_result"]],
        Answered(Answer(LONG)),
    ),
    "its answer cannot be kept": (
        [Returned(LONG), False],
        {},
        [OPENED, ["committed, failed"]],
        Closing("result_not_kept", "the answer could not be kept beside the journal"),
    ),
    "its answer is secret": (
        [Returned("key")],
        {"secret": True},
        [OPENED, ["committed, withheld"]],
        Answered(Answer("key")),
    ),
    "the policy denies": (
        [Deny("not on Sundays")],
        {},
        [["tool_call", "capability_resolved", "policy_denied", "not_started", *ERROR]],
        Answered(Answer(None, ErrorAnswer("denied", "not on Sundays"))),
    ),
    "nothing more may start": ([Halt("budget_exceeded")], {}, [], Closing("budget_exceeded")),
    "it raised": ([FAILED], {}, DOUBT, Closing("unknown_effect", "ValueError: no")),
    "it was cancelled": ([Cancelled()], {}, DOUBT, Closing("unknown_effect", "cancelled")),
    "it was cancelled before its body began": (
        [Cancelled(before_start=True)],
        {},
        [OPENED, ["unknown", "effect_review"]],
        Interrupted(),
    ),
    "it knows that nothing happened": (
        [Raised("CardDeclined", "no funds", nothing_happened=True)],
        {},
        [OPENED, ["unknown", "effect_review", *ERROR]],
        Answered(Answer(None, ErrorAnswer("nothing_happened", "no funds"))),
    ),
    "the probe found it": (
        [FAILED, Happened({"transfer": "T-77"})],
        {"probe": BANK},
        [*DOUBT, ["effect_review", "step_output"]],
        Answered(Answer({"transfer": "T-77"})),
    ),
    "the probe found that it returned nothing": (
        [FAILED, Happened(None)],
        {"probe": BANK},
        [*DOUBT, ["effect_review", "step_output"]],
        Answered(Answer(None)),
    ),
    "the probe found it but not what it returned": (
        [FAILED, Happened()],
        {"probe": BANK},
        [*DOUBT, ["effect_review"]],
        Answered(Unrecorded("pay happened, as settled by probe:find_payment; the result was not recorded")),
    ),
    "the probe found it and its answer cannot be kept": (
        [FAILED, Happened(LONG), False],
        {"probe": BANK},
        [*DOUBT, ["effect_review"]],
        Answered(Unrecorded("pay happened, as settled by probe:find_payment; the result was not recorded")),
    ),
    "the probe found it and its answer is secret": (
        [FAILED, Happened("key")],
        {"probe": BANK, "secret": True},
        [*DOUBT, ["effect_review"]],
        Answered(Answer("key")),
    ),
    "the probe found it, but the caller is gone": (
        [Cancelled(), Happened(1)],
        {"probe": BANK},
        [*DOUBT, ["effect_review", "step_output"]],
        Interrupted(),
    ),
    "the probe did not find it, but the caller is gone": (
        [Cancelled(), *[DidNotHappen()] * 2],
        {"probe": BANK},
        [*DOUBT, ["effect_review"]],
        Interrupted(),
    ),
    "the probe gives it up": ([FAILED, GiveUp()], {"probe": BANK}, [*DOUBT, ["effect_review"]], GaveUp()),
    "the probe cannot tell": (
        [FAILED, CannotTell("bank is down")],
        {"probe": BANK},
        DOUBT,
        Closing("unknown_effect", "bank is down", 5.0),
    ),
    "the probe wants to be asked tomorrow": (
        [FAILED, CannotTell("books close at night", 86400)],
        {"probe": BANK},
        DOUBT,
        Closing("unknown_effect", "books close at night", 86400),
    ),
    "it did not happen and returned on the second attempt": (
        [FAILED, *[DidNotHappen()] * 2, Returned(1)],
        {"probe": BANK},
        [*DOUBT, ["effect_review"], ["started"], ["step_output", "committed", "tool_result"]],
        Answered(Answer(1)),
    ),
    "it did not happen twice": (
        [FAILED, *[DidNotHappen()] * 2, Raised("OSError", "again"), *[DidNotHappen()] * 2],
        {"probe": BANK},
        [*DOUBT, ["effect_review"], ["started"], ["unknown"], ["effect_review", *ERROR]],
        Answered(Answer(None, ErrorAnswer("OSError", "again"))),
    ),
    "it did not happen, and then the caller was gone": (
        [FAILED, *[DidNotHappen()] * 2, Cancelled(), *[DidNotHappen()] * 2],
        {"probe": BANK},
        [*DOUBT, ["effect_review"], ["started"], ["unknown"], ["effect_review"]],
        Interrupted(),
    ),
    "it did not happen, and nobody knows of the second attempt": (
        [FAILED, *[DidNotHappen()] * 2, FAILED, CannotTell("down")],
        {"probe": BANK},
        [*DOUBT, ["effect_review"], ["started"], ["unknown"]],
        Closing("unknown_effect", "down", 5.0),
    ),
    "it did not happen and the policy denies a second attempt": (
        [Allow(), FAILED, *[DidNotHappen()] * 2, Deny("enough")],
        {"probe": BANK},
        [*DOUBT, ["effect_review"], ["policy_denied", *ERROR]],
        Answered(Answer(None, ErrorAnswer("denied", "enough"))),
    ),
    "it did not happen and nothing more may start": (
        [Allow(), FAILED, *[DidNotHappen()] * 2, Halt("pause_requested")],
        {"probe": BANK},
        [*DOUBT, ["effect_review"]],
        Closing("pause_requested"),
    ),
    "free: it returned": (
        [Returned(1)],
        {"capability": LOOK},
        [OPENED[:2], ERROR],
        Answered(Answer(1)),
    ),
    "free: it raised": (
        [FAILED],
        {"capability": LOOK},
        [OPENED[:2], ERROR],
        Answered(Answer(None, ErrorAnswer("ValueError", "no"))),
    ),
    "free: it was cancelled": ([Cancelled()], {"capability": LOOK}, [OPENED[:2]], Interrupted()),
    "free: its answer is secret": (
        [Returned("key")],
        {"capability": LOOK, "secret": True},
        [OPENED[:2]],
        Answered(Answer("key")),
    ),
    "free: its answer cannot be kept": (
        [Returned(LONG), False],
        {"capability": LOOK},
        [OPENED[:2]],
        Closing("result_not_kept", "the answer could not be kept beside the journal"),
    ),
    "free: the policy denies": (
        [Deny("no")],
        {"capability": LOOK},
        [["tool_call", "capability_resolved", "policy_denied", "not_started", *ERROR]],
        Answered(Answer(None, ErrorAnswer("denied", "no"))),
    ),
}


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_written_in_its_order(path: str) -> None:
    """reference/journal.md §1: every prefix of an append must be a legal, more doubtful state."""
    said, options, words, _ = PATHS[path]

    assert words == walked(*said, **options).words


@pytest.mark.parametrize("path", PATHS)
def test_a_path_has_its_end(path: str) -> None:
    """The agent gets an answer only where there is one."""
    said, options, _, end = PATHS[path]

    assert end == walked(*said, **options).end


@pytest.mark.parametrize("path", PATHS)
def test_only_the_append_of_a_start_says_so(path: str) -> None:
    """The writer looks twice at the file before an effect."""
    said, options, _, _ = PATHS[path]
    needs = [need for need in walked(*said, **options).needs if isinstance(need, Append)]

    assert [word(need.events[-1]) == "started" for need in needs] == [need.starts for need in needs]


# Calls that stand in the journal already.

CALLED = [events.tool_call(facts(), arguments()), events.capability_resolved(facts())]
UNKNOWN = [[*CALLED, events.effect_receipt(facts(), "started")], [events.effect_receipt(facts(), "unknown")]]
REFUSED = [[*CALLED, events.effect_receipt(facts(), "not_started")]]


def test_a_recorded_call_is_not_proposed_again() -> None:
    """Its key, step and arguments stand."""
    found = resumed(Returned(1), earlier=[CALLED])

    assert [["started"], ["step_output", "committed", "tool_result"]] == found.words


def test_a_call_that_was_torn_before_its_capability_is_given_it() -> None:
    """It decides what may happen after the next crash, so it stands before the start."""
    found = resumed(Returned(1), earlier=[CALLED[:1]], resolved=False)

    assert ["capability_resolved", "started"] == found.words[0]


def test_a_recorded_free_call_writes_only_its_answer() -> None:
    """There is nothing else to say of it."""
    look = facts(1, LOOK)
    proposal = [events.tool_call(look, arguments()), events.capability_resolved(look)]

    assert [ERROR] == resumed(Returned(1), earlier=[proposal], capability=LOOK).words


def test_a_call_that_a_person_denied_starts_as_its_second_attempt() -> None:
    """Its key carries a `not_started`, and a second receipt under one key would be a conflict for the reference."""
    found = resumed(Returned(1), earlier=REFUSED, attempt=1)

    assert [["started"], ["step_output", "committed", "tool_result"]] == found.words
    assert "tool_attempt" == found.appends[0][0]["type"]


def rerun(*said: Any) -> Walked:
    """An idempotent call of which an earlier leg left an attempt open."""
    charge = facts(1, CHARGE)
    proposal = [events.tool_call(charge, arguments()), events.capability_resolved(charge)]
    opened = [*proposal, events.effect_receipt(charge, "started")]
    return resumed(*said, earlier=[opened], capability=CHARGE, attempt=1, rerun=True)


def test_a_rerun_keeps_the_key() -> None:
    """The other side knows the effect by it."""
    names = [event["attemptId"] for append in rerun(Returned(1)).appends for event in append if "attemptId" in event]

    assert [f"{facts(1, CHARGE).key}#2"] * 2 == names


def test_a_rerun_says_that_it_is_one() -> None:
    """The idempotent attempt was authorised when it first started."""
    found = rerun(FAILED, CannotTell("down"))

    assert [True] == [need.again for need in found.needs if isinstance(need, Ask)]


def test_a_rerun_that_is_denied_is_no_answer() -> None:
    """The first attempt is still open, whatever the policy says of a second."""
    found = rerun(Deny("no"))

    assert ([], Closing("unknown_effect", "no")) == (found.words, found.end)


def test_an_open_attempt_of_an_earlier_leg_is_asked_after_first() -> None:
    """The true arguments are there only now."""
    found = resumed(Happened(7), earlier=UNKNOWN, attempt=1, probe=BANK, doubt_ms=BORN_MS)

    assert ([["effect_review", "step_output"]], Answered(Answer(7))) == (found.words, found.end)


def test_an_open_attempt_of_which_nothing_is_learnt_closes_the_gate() -> None:
    """Nothing but a person is left."""
    found = resumed(CannotTell("down"), earlier=UNKNOWN, attempt=1, probe=BANK, doubt_ms=BORN_MS)

    assert ([], Closing("unknown_effect", "down", 5.0)) == (found.words, found.end)


def test_an_open_attempt_that_did_not_happen_starts_anew_when_allowed() -> None:
    """The policy is asked anew; the attempt is the next one."""
    said = [*[DidNotHappen()] * 2, Returned(1)]
    found = resumed(*said, earlier=UNKNOWN, attempt=1, probe=BANK, doubt_ms=BORN_MS)

    assert [["effect_review"], ["started"], ["step_output", "committed", "tool_result"]] == found.words
    assert [Ask(2)] == [need for need in found.needs if isinstance(need, Ask)]


RECHECKED: dict[str, tuple[list[Any], list[list[str]], End]] = {
    "it happened": ([Happened(7)], [["effect_review", "step_output"]], Interrupted()),
    "it did not happen": ([DidNotHappen()] * 2, [["effect_review"]], Interrupted()),
    "given up": ([GiveUp()], [["effect_review"]], GaveUp()),
    "nobody can tell": ([CannotTell("down")], [], Closing("unknown_effect", "down", 5.0)),
}


@pytest.mark.parametrize("path", RECHECKED)
def test_a_recheck_settles_and_starts_nothing(path: str) -> None:
    """Probes run before the agent does."""
    said, words, end = RECHECKED[path]
    scribe = Scribe().born()
    for append in UNKNOWN:
        scribe.say(*append)
    walk = Walk(facts(), arguments(), attempt=1, recorded=True, probe=BANK, doubt_ms=BORN_MS)
    found = drive(walk.recheck(), Script(*said), scribe=scribe)

    assert (words, end) == (found.words, found.end)
    assert not any(isinstance(need, Ask | Call) for need in found.needs)


# Asking a probe.


def asked(*verdicts: Any, in_doubt_s: float = 30, started_ms: int = BORN_MS) -> Walked:
    """Ask after an attempt."""
    return drive(effect.ask(ProbeFacts("p", in_doubt_s), 1, started_ms), Script(*verdicts))


def test_did_not_happen_counts_only_when_nothing_can_land_any_more() -> None:
    """A request that is still on its way would make it a lie."""
    found = asked(DidNotHappen("first"), DidNotHappen("second"))

    assert DidNotHappen("second") == found.end
    assert [Wait(30.0)] == [need for need in found.needs if isinstance(need, Wait)]


def test_did_not_happen_counts_from_when_the_probe_was_asked() -> None:
    """A request may land while a slow probe looks."""
    times = iter([BORN_MS + 29_000, BORN_MS + 31_000, BORN_MS + 31_000])
    steps = effect.ask(BANK, 1, BORN_MS)
    assert Now() == next(steps)
    assert Probe(1) == steps.send(next(times))
    assert Now() == steps.send(DidNotHappen())

    assert Wait(1.0) == steps.send(next(times))


@pytest.mark.parametrize("verdict", [Happened(1), GiveUp("lost")], ids=repr)
def test_what_a_probe_knows_ends_the_asking(verdict: Any) -> None:
    """There is nothing to wait for."""
    assert (verdict, 1) == (asked(verdict).end, sum(isinstance(need, Probe) for need in asked(verdict).needs))


def test_a_probe_that_cannot_tell_is_asked_for_a_minute() -> None:
    """Then the run pauses instead of hanging."""
    found = asked(CannotTell("down"))

    assert (CannotTell("down", 5.0), 60.0) == (found.end, sum(n.seconds for n in found.needs if isinstance(n, Wait)))


def test_a_probe_that_cannot_tell_at_first_may_tell_later() -> None:
    """A short outage must not cost a person's time."""
    steps = effect.ask(BANK, 1, BORN_MS)
    assert Now() == next(steps)
    steps.send(BORN_MS)
    steps.send(CannotTell("down", 2))
    assert Wait(2) == steps.send(BORN_MS)
    assert Now() == steps.send(None)
    assert Probe(1) == steps.send(BORN_MS + 2000)
    with pytest.raises(StopIteration) as stop:
        steps.send(Happened(1))

    assert Happened(1) == stop.value.value


def test_waiting_for_what_may_still_land_is_told_to_the_caller() -> None:
    """A doubt of an hour is not waited for here."""
    found = asked(DidNotHappen(), in_doubt_s=3600)

    assert CannotTell("not there yet; a request may still land for 3600 s", 3600.0) == found.end


def test_a_wait_that_is_cut_short_ends_the_asking() -> None:
    """A run that is to pause does not wait for a minute first."""
    steps = effect.ask(BANK, 1, BORN_MS)
    next(steps)
    steps.send(BORN_MS)
    steps.send(CannotTell("down"))
    steps.send(BORN_MS)
    with pytest.raises(StopIteration) as stop:
        steps.send(True)

    assert CannotTell("down", 5.0) == stop.value.value


def test_a_probe_is_not_asked_again_sooner_than_now() -> None:
    """A negative wait is none."""
    steps = effect.ask(BANK, 1, BORN_MS)
    next(steps)
    steps.send(BORN_MS)
    steps.send(CannotTell("odd", -3))

    assert Wait(0.0) == steps.send(BORN_MS)


# What a review says.


def reviewed(*said: Any, **options: Any) -> Event:
    """The settlement of a walk."""
    appends = walked(*said, **options).appends
    return next(event for append in appends for event in append if event["type"] == "effect_review")


def test_a_probe_settles_under_its_name_with_its_evidence() -> None:
    """Who and why are on record, whoever it is."""
    event = reviewed(FAILED, Happened(1, reason="found T-77"), probe=BANK)

    assert ("probe", "probe:find_payment", "found T-77") == (event["source"], event["by"], event["reason"])
    assert [{"kind": "probe", "askedAt": format_ms(BORN_MS), "inDoubtS": 30}] == event["evidence"]


def test_a_tool_settles_under_its_name() -> None:
    """It is the tool's word, not a person's."""
    event = reviewed(Raised("CardDeclined", "no funds", nothing_happened=True))

    assert ("did_not_happen", "tool", "pay", "CardDeclined: no funds") == (
        event["outcome"], event["source"], event["by"], event["reason"],
    )  # fmt: skip


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_a_probe_that_gives_no_reason_is_quoted_as_such(reason: str) -> None:
    """A review without a reason is refused, and that must not cost the settlement."""
    event = reviewed(FAILED, GiveUp(reason), probe=BANK)

    assert "as the probe said" == event["reason"]


def test_the_doubt_of_a_probe_is_written_without_floats() -> None:
    """Integers read the same everywhere."""
    evidence = effect.probe_evidence(ProbeFacts("p", 0.25), BORN_MS)

    assert {"kind": "probe", "askedAt": "2026-11-29T14:00:00.000Z", "inDoubtMs": 250} == evidence


# What no world can bring about.

outcomes = st.sampled_from(
    [
        Returned(None), Returned({"a": [1]}), Returned(LONG), Returned(1, failed="no"), FAILED,
        Raised("CardDeclined", "no", nothing_happened=True), Cancelled(), Cancelled(before_start=True),
    ]
)  # fmt: skip
verdicts = st.sampled_from(
    [Happened(), Happened(None), Happened(LONG), DidNotHappen("no"), GiveUp(), CannotTell("?"), CannotTell("?", 90)]
)
permissions = st.sampled_from([Allow(), Allow(), Allow(), Deny("no"), Halt("pause_requested")])


class World(NamedTuple):
    """A walk through a world of chance."""

    found: Walked
    scribe: Scribe
    said: list[tuple[Need, Any]]
    call: CallFacts
    secret: bool


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Any tool, any options, any answer to any need."""
    call, said, scribe = (
        facts(1, draw(st.sampled_from(list(TOOLS.values())))),
        list[tuple[Need, Any]](),
        Scribe().born(),
    )
    probe, secret = draw(st.sampled_from([None, BANK])), draw(st.booleans())

    def answer(need: Need) -> Any:
        source = {Ask: permissions, Call: outcomes, Probe: verdicts, Save: st.booleans()}[type(need)]
        said.append((need, draw(source)))
        return said[-1][1]

    found = drive(Walk(call, arguments(), probe=probe, secret=secret), answer, scribe=scribe)
    return World(found, scribe, said, call, secret)


@given(worlds())
def test_started_is_durable_before_the_tool_runs(world: World) -> None:
    """Promise 5."""
    opened = set()
    for need in world.found.needs:
        if isinstance(need, Append):
            opened |= {event.get("attempt", 1) for event in need.events if event.get("status") == "started"}
        if isinstance(need, Call):
            assert world.call.capability.free or need.attempt in opened


@given(worlds())
def test_nothing_runs_after_a_denial_or_a_halt(world: World) -> None:
    """A no is the last word."""
    words = [answer for _, answer in world.said]
    last = next((number for number, answer in enumerate(words) if isinstance(answer, Deny | Halt)), len(words))

    assert [] == words[last + 1 :]


@given(worlds())
def test_a_walk_runs_its_tool_at_most_twice(world: World) -> None:
    """Once, and once more by itself when it is proved that nothing happened."""
    assert sum(isinstance(need, Call) for need in world.found.needs) <= 2


@given(worlds())
def test_a_doubt_without_proof_closes_the_gate(world: World) -> None:
    """An unknown outcome is never an answer."""
    last = world.said[-1][1]
    doubtful = isinstance(last, CannotTell) or (
        not world.call.capability.free
        and ((isinstance(last, Raised) and not last.nothing_happened) or last == Cancelled())
    )

    assert doubtful == (isinstance(world.found.end, Closing) and world.found.end.reason == "unknown_effect")


@given(worlds())
def test_an_answer_is_handed_out_as_it_is_recorded(world: World) -> None:
    """Live and replayed are the same."""
    end = world.found.end
    if not isinstance(end, Answered) or world.secret:
        return
    if isinstance(end.answer, Unrecorded):
        assert "effect_review" == world.found.words[-1][0]
        return
    event = next(event for event in world.found.appends[-1] if event["type"] == "step_output")
    whole = world.found.blobs.get(event["blob"]["sha256"]) if "blob" in event else None

    assert end.answer == read_answer(event, whole)


@given(worlds())
def test_a_secret_answer_is_never_written(world: World) -> None:
    """It is handed on and forgotten; only errors, which are not answers of the tool, are told in the record."""
    told = [event for append in world.found.appends for event in append if event["type"] == "step_output"]

    assert not world.secret or all("error" in event and event["text"] == "null" for event in told)


@given(worlds())
def test_death_at_any_line_of_any_append_is_never_taken_for_success(world: World) -> None:
    """Whatever was torn, the plan claims nothing that is not proved, and the run does not complete over a doubt."""
    assert [] == [wrong for prefix in prefixes(world.scribe.data) for wrong in overconfident(prefix)]


@given(worlds(), st.data())
def test_a_run_that_died_at_any_line_goes_on_by_its_plan(world: World, data: st.DataObject) -> None:
    """What the plan says may be done is what the journal takes; a settled doubt is never a dead end."""
    prefix = data.draw(st.sampled_from(list(prefixes(world.scribe.data))[2:]))
    scribe = Scribe()
    scribe.state, scribe.data, scribe._count = refold(prefix), prefix, 1000
    scribe.opened("resume", Move("PAUSE", "process_interrupted"), Move("RESUME"))
    known = scribe.state.calls.get(world.call.step_id)
    if known is not None and known.unsettled and known.open:
        scribe.say(review_of(world.call, "did_not_happen", known.attempt))
        known = scribe.state.calls.get(world.call.step_id)
    plan = {step.step_id: step.decision for step in prepare_run_resume(scribe.state, None, Facts(at_ms=0)).steps}
    if plan.get(world.call.step_id, "run") != "run":
        return
    options: dict[str, Any] = {} if known is None else {"recorded": True, "resolved": known.capability is not None}
    attempt = 0 if known is None else known.attempt
    found = drive(Walk(world.call, arguments(), attempt=attempt, **options), Script(Returned(1)), scribe=scribe)

    assert Answered(Answer(1)) == found.end
    assert [] == scribe.state.unsettled()


@given(worlds())
def test_a_walk_that_closes_over_an_effect_leaves_it_unsettled(world: World) -> None:
    """Else the agent could return and the run complete."""
    unsettled = bool(world.scribe.state.unsettled())
    reasons = ("unknown_effect", "result_not_kept")
    closes = (
        isinstance(world.found.end, Closing) and world.found.end.reason in reasons and not world.call.capability.free
    )

    assert closes == unsettled


@given(worlds())
def test_a_run_whose_effects_are_known_may_complete(world: World) -> None:
    """A walk leaves no doubt behind where there is none."""
    if world.scribe.state.unsettled():
        return
    world.scribe.say(*completed())

    assert "completed" == world.scribe.state.state


@given(worlds())
def test_an_append_is_what_the_reader_finds(world: World) -> None:
    """Nothing is said but by the walk."""
    found = [record.payload["event"] for record, _ in read(world.scribe.data) if record.kind == "event"]
    said = [event for append in world.found.appends for event in append]

    assert [word(event) for event in said] == [word(event) for event in found]


def test_settling_by_a_person_is_the_same_walk() -> None:
    """One order of records for every source."""
    call = facts()
    settle = effect.settle_happened(call, 1, Happened(7, "saw it"), by="ann", evidence=[], source="operator")
    found = drive(settle, Script())

    assert ([["effect_review", "step_output"]], Answer(7)) == (found.words, found.end)
    assert (True, "operator") == (found.appends[0][0]["resultRecorded"], found.appends[0][0]["source"])


# A business key.

KEY = {"sha256": sha256(b"1042").hexdigest(), "text": "1042"}
TAKEN = Taken("run 'r1' has it", {"run": "r1", "state": "committed"})
NOT_MINE = Answered(Answer(TAKEN.holder, ErrorAnswer("key_held", "run 'r1' has it", TAKEN.holder)))


def keyed(*said: Any, earlier: list[list[Event]] | None = None, capability: Capability = PAY, **options: Any) -> Walked:
    """A walk of a call with a business key, new or recorded."""
    scribe, call = Scribe().born(), facts(1, capability)
    call.business = KEY
    for append in earlier or []:
        scribe.say(*append)
    return drive(Walk(call, arguments(), recorded=earlier is not None, **options), Script(*said), scribe=scribe)


def test_a_business_key_is_taken_before_the_start_is_appended() -> None:
    """Intent before effect: another process must see the claim before anything can have happened."""
    done = keyed(Returned(1))

    assert [Ask, Hold, Append, Call, Append] == [type(need) for need in done.needs]
    assert KEY == done.appends[0][0]["businessKey"]


def test_a_call_without_a_business_key_asks_for_none() -> None:
    """A plain call costs what it cost before."""
    done = walked(Returned(1))

    assert [Ask, Append, Call, Append] == [type(need) for need in done.needs]


def test_a_second_attempt_takes_the_key_anew() -> None:
    """Between two attempts nothing was held: another run may have taken the key."""
    done = keyed(FAILED, DidNotHappen(), DidNotHappen(), Returned(1), probe=BANK)

    assert [1, 2] == [need.attempt for need in done.needs if isinstance(need, Hold)]


def test_a_key_that_another_call_has_is_an_answer_and_nothing_starts() -> None:
    """Refused is `not_started` (promise 5), and the agent is told who has the key."""
    done = keyed(TAKEN)

    assert [["tool_call", "capability_resolved", "not_started", *ERROR]] == done.words
    assert NOT_MINE == done.end


def test_an_answer_of_the_holder_is_handed_on_without_a_start() -> None:
    """The agent is told what happened once, and the journal says that it did not happen here."""
    done = keyed(Taken("r1 has it", {"run": "r1"}, Answer({"transfer": "T-1"})))

    assert [["tool_call", "capability_resolved", "not_started", *ERROR]] == done.words
    assert False is done.appends[0][-1]["isError"]
    assert Answered(Answer({"transfer": "T-1"})) == done.end


def test_a_long_answer_of_the_holder_that_cannot_be_kept_closes_the_gate() -> None:
    """What would not be there at the next resume must not be told now."""
    done = keyed(Taken("r1 has it", {"run": "r1"}, Answer(LONG)), False)

    assert ([], "result_not_kept") == (done.words, done.end.reason)


def starting() -> Taken:
    return Taken("r1 is about to start", {"run": "r1"}, starting=True)


def test_who_is_about_to_start_is_waited_for_and_then_has_the_key() -> None:
    """In a moment it will have started, or be gone."""
    done = keyed(*[starting()] * 3, TAKEN)

    assert [0.05] * 3 == [need.seconds for need in done.needs if isinstance(need, Wait)]
    assert NOT_MINE == done.end


def test_who_turns_out_to_be_gone_leaves_the_key() -> None:
    """It claimed and died before its start."""
    done = keyed(*[starting()] * 3, Returned(1))

    assert [Ask, *[Hold, Wait] * 3, Hold, Append, Call, Append] == [type(need) for need in done.needs]


def test_who_is_about_to_start_for_long_is_named() -> None:
    """A stopped process must not stop this one."""
    done = keyed(*[starting()] * 50)

    assert [0.05] * 40 == [need.seconds for need in done.needs if isinstance(need, Wait)]
    assert "r1 is about to start" == done.end.answer.error.message


def test_nobody_is_waited_for_where_nobody_may_wait() -> None:
    """Who pressed Ctrl-C is heard."""
    call = facts()
    call.business = KEY
    walk = Walk(call, arguments()).run()
    assert isinstance(next(walk), Ask)
    assert isinstance(walk.send(Allow()), Hold)
    assert isinstance(walk.send(starting()), Wait)

    assert isinstance(walk.send(True), Append)


def test_a_recorded_call_whose_key_was_lost_meanwhile_is_answered() -> None:
    """It was settled as not having happened, so another run was free to take the key."""
    settled = [[*STARTED], [events.effect_receipt(facts(), "unknown")], [review_of(facts(), "did_not_happen")]]
    done = keyed(TAKEN, earlier=settled, attempt=1)

    assert ([ERROR], NOT_MINE) == (done.words, done.end)


def test_an_open_attempt_whose_key_another_call_has_waits_for_a_person() -> None:
    """It may have happened, so no answer may say that it did not start."""
    earlier = [[*started_of(CHARGE)], [events.effect_receipt(facts(1, CHARGE), "unknown")]]
    done = keyed(TAKEN, earlier=earlier, capability=CHARGE, attempt=1, rerun=True)

    assert ([], Closing("unknown_effect", "run 'r1' has it")) == (done.words, done.end)


@pytest.mark.parametrize(("rerun", "end"), [(False, Interrupted()), (True, Closing("unknown_effect", "interrupted"))])
def test_interrupted_while_it_takes_the_key_it_starts_nothing(rerun: bool, end: End) -> None:
    """Ctrl-C at the claim is no answer, and an attempt that is open stays open."""
    earlier = [[*started_of(CHARGE)], [events.effect_receipt(facts(1, CHARGE), "unknown")]] if rerun else None
    options = {"attempt": 1, "rerun": True} if rerun else {}
    done = keyed(Cancelled(), earlier=earlier, capability=CHARGE, **options)

    assert ([], end) == (done.words, done.end)


def started_of(capability: Capability) -> list[Event]:
    call = facts(1, capability)
    return [events.tool_call(call, arguments()), events.capability_resolved(call), events.receipt(call, 1, "started")]


STARTED = started_of(PAY)


def test_an_answer_of_another_call_says_whose_it_is() -> None:
    """A value beside `not_started` that names nobody would look as if it were made up (promise 9)."""
    given = Taken(TAKEN.message, TAKEN.holder, Answer("T-1"))
    told = [event for event in keyed(given).appends[0] if event["type"] == "step_output"]

    assert [TAKEN.holder] == [event["heldBy"] for event in told]
    assert ["heldBy" in event for event in keyed(TAKEN).appends[0]] == [False] * 5
