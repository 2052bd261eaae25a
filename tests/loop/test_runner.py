"""A loop in a run: each phase on disk before its step, resumed where it died, and honest about how it ended."""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

import clew
from clew.errors import NotVerified, Refused, UsageError
from clew.loop import Check, LoopConfig, Round, loop
from clew.runtime.control import POLL_S
from clew.stores.base import Command
from clew.testing.crash import CrashPoint
from tests.loop.garage import FACES, Garage
from tests.runtime.scene import RUN, agent_of
from tests.runtime.test_drivers import crash, cuts

WHO = {"by": "ops", "reason": "enough"}
WAY = [
    "planning", "executing", "verifying", "repairing", "verifying", "repairing", "verifying", "succeeded",
]  # fmt: skip
STEPS = [
    "loop-plan-1", "loop-execute-1", "loop-verify-1", "loop-repair-1", "loop-verify-2", "loop-repair-2",
    "loop-verify-3",
]  # fmt: skip
faces = pytest.mark.parametrize("way", FACES)


def raising(name: str, *faults: BaseException | None) -> Any:
    """The function of this name raises this, a fault a call; then it works."""
    left = list(faults)

    def before(here: str, run: Any, round: Round) -> None:
        fault = left.pop(0) if here == name and left else None
        if fault is not None:
            raise fault

    return before


class Coded(Exception):
    """An error of somebody else's, with a code."""

    def __init__(self, code: Any) -> None:
        super().__init__(f"it says {code}")
        self.code = code


# The way through.


@faces
def test_a_loop_goes_its_way_and_each_phase_is_on_disk_before_its_step(way: str) -> None:
    """#221, #211, #212: whoever reads the journal at any moment knows what is being done; a plan comes first."""
    garage = Garage(way)

    result = garage.run()

    assert ("completed", "deed 3", WAY, []) == (result.operation.state, result.output, garage.phases, garage.early)
    assert list(range(1, 9)) == [told["transitionSequence"] for told in garage.loops]


@faces
def test_the_steps_of_a_loop_have_names_of_their_own(way: str) -> None:
    """#220: verify and repair are numbered by round; plan and execute carry their only number."""
    garage = Garage(way)

    garage.run()

    assert STEPS == garage.answered


def test_each_function_is_told_what_came_before() -> None:
    """A repair that does not know what was found can only guess."""
    garage = Garage()

    garage.run()

    told = [(name, each.number, each.plan, each.done, each.check) for name, each in garage.rounds]
    first, second = Check(False, "saw deed 1"), Check(False, "saw deed 2")
    assert [
        ("plan", 0, None, None, None),
        ("execute", 1, "the plan", None, None),
        ("verify", 1, "the plan", "deed 1", None),
        ("repair", 2, "the plan", "deed 1", first),
        ("verify", 2, "the plan", "deed 2", first),
        ("repair", 3, "the plan", "deed 2", second),
        ("verify", 3, "the plan", "deed 3", second),
    ] == told


def test_a_result_says_what_the_last_check_saw() -> None:
    """Text is not evidence: what the check saw goes with the success, and is recorded."""
    garage = Garage(good=1)

    garage.run()

    found = garage.results[0]
    assert ("deed 1", "the plan", Check(True, "saw deed 1")) == (found.value, found.plan, found.check)
    assert '{"passed":true,"evidence":"saw deed 1"}' in [event["text"] for event in garage.scene.said("step_output")]


def test_a_loop_without_plan_and_repair_is_one_deed_and_one_check() -> None:
    """The smallest loop there is."""
    garage = Garage(good=1, plan=None, repair=None, config=LoopConfig(on_failure="fail"))

    result = garage.run()

    assert ("deed 1", ["executing", "verifying", "succeeded"]) == (result.output, garage.phases)


def test_the_account_and_the_plan_show_the_loop() -> None:
    """#69: the last snapshot is there for whoever looks at the run."""
    garage = Garage()
    garage.before = raising("repair", LookupError("a bug"))
    paused = garage.run()

    plan = garage.scene.home().plan(RUN, garage.agent)
    assert plan is not None

    assert garage.loops[-1] == paused.snapshot["loop"] == plan.loop
    assert garage.loops[-1] == garage.scene.lines[-1]["payload"]["loopSnapshot"]


# Deaths.


def lengths(way: str) -> list[tuple[int, Any]]:
    """Every place at which a process can die in its loop: each append but the run's end, and how much of it is kept."""
    garage, point = Garage(way), CrashPoint()
    garage.run(point=point)
    return [(number, keep) for number, batch in enumerate(point.appends[:-1], 1) for keep in cuts(batch)]


@faces
def test_a_death_at_any_append_is_resumed_in_the_phase_in_which_it_happened(way: str) -> None:
    """#216, #221, #220: no answered step is done again, and the first thing done is what the journal says."""
    for number, keep in lengths(way):
        garage = Garage(way)
        crash(garage.scene, garage.agent, CrashPoint(number, keep))
        known, phase, before = garage.answered, garage.phase, len(garage.rounds)

        result = garage.resume()

        after = [(name, each.number) for name, each in garage.rounds[before:]]
        assert ("completed", "deed 3", WAY, []) == (result.operation.state, result.output, garage.phases, garage.early)
        assert STEPS == garage.answered
        assert [step for step in (_step(*ran) for ran in after) if step in known] == []
        assert _step(*after[0]) == _next(phase, known) if after else phase in ("verifying", "succeeded")


def _step(name: str, number: int) -> str:
    return f"loop-{name}-{max(1, number - 1 if name == 'repair' else number)}"


def _next(phase: str, known: list[str]) -> str:
    """The first step without an answer."""
    return next(step for step in STEPS if step not in known)


def test_deaths_at_every_leg_of_one_run_still_end_well() -> None:
    """#221: a process that dies again and again gets one record further each time."""
    garage = Garage()
    crash(garage.scene, garage.agent, CrashPoint(1))
    for _ in range(40):
        if garage.phase == "succeeded":
            break
        crash(garage.scene, garage.agent, CrashPoint(3), resume=True)

    result = garage.resume()

    assert ("completed", WAY, []) == (result.operation.state, garage.phases, garage.early)


@dataclass
class Patch:
    """What a deed returns, as a type of its own."""

    lines: int


def test_a_replayed_deed_has_the_type_that_it_announced() -> None:
    """A check that works on a live answer works on a recorded one."""
    kinds = []

    def execute(run: Any, round: Round) -> Patch:
        return Patch(round.number)

    def verify(run: Any, round: Round) -> bool:
        kinds.append(type(round.done))
        if len(kinds) == 1:
            raise LookupError("a bug")
        return bool(round.done.lines == 1)

    garage = Garage(plan=None, execute=execute, verify=verify)
    garage.run()
    result = garage.resume()

    assert ([Patch, Patch], "completed") == (kinds, result.operation.state)


# What stops it.


@faces
def test_a_used_up_loop_fails_and_its_run_is_not_completed(way: str) -> None:
    """#213: an agent that does not catch it has not succeeded either; a resume tells it the same and tries nothing."""
    garage = Garage(way, good=9)

    first, again = garage.run(), garage.resume()

    assert ("paused", "agent_error", "failed") == (first.operation.state, first.reason, garage.phase)
    assert isinstance(again.fault, NotVerified)
    assert ("loop_failed", "loop_exhausted", "failed") == (
        again.fault.code, again.fault.facts["reason"], again.fault.facts["phase"],
    )  # fmt: skip
    assert Counter(garage.ran.values()) == {1: 7}


@faces
def test_a_used_up_loop_that_pauses_ends_the_way_of_its_run(way: str) -> None:
    """#213, W40: the run says why, says that it is not resumable, refuses, and can be ended."""
    garage = Garage(way, good=9, config=LoopConfig(on_exhausted="pause"))
    result = garage.run()
    lines = garage.scene.lines

    with pytest.raises(Refused) as caught:
        garage.resume()

    assert ("paused", "loop_exhausted", 22, False) == (
        result.operation.state, result.reason, result.exit_code, result.snapshot["resumable"],
    )  # fmt: skip
    assert ("operation_not_resumable", lines) == (caught.value.code, garage.scene.lines)
    garage.scene.home().abort(RUN, **WHO)
    assert ("failed", "paused") == (garage.scene.state.state, garage.phase)


def test_a_death_before_the_pause_of_a_used_up_loop_is_made_good() -> None:
    """W40: the run that could not say it is paused says it at the next resume, and nothing is tried in between."""
    garage = Garage(good=9, config=LoopConfig(on_exhausted="pause"))
    point = CrashPoint()
    Garage(good=9, config=LoopConfig(on_exhausted="pause")).run(point=point)
    crash(garage.scene, garage.agent, CrashPoint(len(point.appends), 0))
    before = dict(garage.ran)

    result = garage.resume()

    assert ("paused", "loop_exhausted", before) == (result.operation.state, result.reason, garage.ran)


def test_a_failed_check_ends_a_loop_that_is_not_to_be_repaired() -> None:
    """#214: `verification_failed`, at once, with what the check saw."""
    garage = Garage(config=LoopConfig(on_failure="fail"))

    result = garage.run()

    assert isinstance(result.fault, NotVerified)
    assert ("verification_failed", "saw deed 1") == (
        garage.loops[-1]["failureCode"], garage.loops[-1]["failureMessage"],
    )  # fmt: skip
    assert ("repair", 2) not in garage.ran


@faces
def test_the_same_deed_again_pauses_where_that_is_wanted(way: str) -> None:
    """#215: a person looks; then it is checked once more, and nothing is repaired in between."""
    stubborn: Any = (lambda run, round: "same") if way == "plain" else _stubborn
    config = LoopConfig(max_repeated_action=1, on_exhausted="pause")
    garage = Garage(way, execute=stubborn, repair=stubborn, config=config)

    paused = garage.run()
    garage.good = 0
    garage.works["verify"] = lambda run, round: True
    done = garage.resume()

    assert ("paused", "loop_no_progress", "completed") == (
        paused.operation.state, paused.reason, done.operation.state,
    )  # fmt: skip
    assert ["repairing", "paused", "verifying", "succeeded"] == garage.phases[-4:]


async def _stubborn(run: Any, round: Round) -> str:
    return "same"


def test_deeds_that_return_nothing_are_not_compared() -> None:
    """#215: of two that say nothing, nobody knows that they did the same."""
    garage = Garage(
        plan=None,
        execute=lambda run, round: None,
        repair=lambda run, round: None,
        verify=lambda run, round: round.number == 3,
        config=LoopConfig(max_repeated_action=1),
    )

    assert "completed" == garage.run().operation.state


# What its functions raise.


@faces
@pytest.mark.parametrize("name", ["plan", "execute", "verify", "repair"])
def test_a_bug_pauses_the_loop_in_its_phase_and_a_resume_begins_that_phase_anew(way: str, name: str) -> None:
    """#216, #221: a code that nobody knows wants a person; the bug is mended, and what was answered stays answered."""
    garage = Garage(way)
    garage.before = raising(name, LookupError("a bug"))

    paused = garage.run()
    told = garage.loops[-1]
    done = garage.resume()

    phase = {"plan": "planning", "execute": "executing", "verify": "verifying"}.get(name, "repairing")
    assert ("agent_error", "paused", "unclassified_error", phase, "LookupError: a bug") == (
        paused.reason, told["phase"], told["pauseReason"], told["resumePhase"], told["failureMessage"],
    )  # fmt: skip
    assert ("completed", STEPS, 2) == (done.operation.state, garage.answered, max(garage.ran.values()))
    assert isinstance(paused.fault, LookupError)


@pytest.mark.parametrize(
    ("code", "phase", "reason"),
    [
        ("policy_denied", "paused", "policy_denied"),
        ("approval_denied", "paused", "approval_denied"),
        ("made_up", "paused", "unclassified_error"),
        (17, "paused", "unclassified_error"),
        ("aborted", "aborted", "aborted"),
        ("step_timeout", "timeout", "run_timeout"),
        ("retry_limit", "budget_exceeded", "budget_exceeded"),
        ("network_error", "failed", "network_error"),
        ("checkpoint_corrupt", "failed", "checkpoint_corrupt"),
    ],
)
def test_an_error_means_for_the_loop_what_its_code_means(code: Any, phase: str, reason: str) -> None:
    """#221, #218: human pauses with that code; cancel, timeout and budget have their phases; the rest fails."""
    garage = Garage()
    garage.before = raising("execute", Coded(code))

    result = garage.run()

    told = garage.loops[-1]
    assert (phase, reason) == (told["phase"], told.get("pauseReason") or told.get("failureCode"))
    assert (phase != "paused") == isinstance(result.fault, NotVerified)


@faces
def test_a_policy_that_says_no_pauses_the_loop(way: str) -> None:
    """#221: whoever wrote the policy is asked, through the reason that the record names."""

    def pay(call: clew.Call) -> None:
        raise AssertionError("it was denied")

    def script(run: Any) -> Any:
        def execute(run: Any, round: Round) -> Any:
            return run.call(pay)

        yield loop(run, execute=execute, verify=lambda run, round: True, config=LoopConfig(on_failure="fail"))

    garage = Garage(way)
    garage.agent = agent_of(way, script, policy=lambda call: "not today")
    result = garage.run()

    assert ("paused", "paused", "policy_denied") == (
        result.operation.state, garage.phase, garage.loops[-1]["pauseReason"],
    )  # fmt: skip


def test_a_secret_in_an_error_is_hidden_in_the_record() -> None:
    """The message of an error is written down, and files are read by many."""
    garage = Garage()
    garage.agent = agent_of("plain", garage._script, secrets=["hunter22"])
    garage.before = raising("execute", LookupError("no user hunter22"))

    garage.run()

    assert "hunter22" not in garage.scene.memory.raw(RUN).decode()


@faces
def test_a_limit_of_the_run_leaves_the_loop_where_it_is(way: str) -> None:
    """DESIGN §6: limits pause, and the run resumes under new ones; so must its loop."""
    garage = Garage(way)
    garage.before = lambda name, run, round: garage.scene.clock.advance(20) if name == "execute" else None

    paused = garage.run(budget=clew.RunBudget(run_timeout_s=15))
    where = garage.phase
    done = garage.resume(budget=clew.RunBudget(run_timeout_s=99))

    assert ("run_timeout", "verifying", "completed", WAY) == (
        paused.reason, where, done.operation.state, garage.phases,
    )  # fmt: skip


@faces
def test_a_pause_on_request_leaves_the_loop_where_it_is(way: str) -> None:
    """It is the run that pauses; the loop has nothing to say to it, and goes on in its phase."""
    garage = Garage(way)
    garage.before = telling(garage, "pause")

    paused = garage.run()
    done = garage.resume()

    assert ("pause_requested", "completed", WAY) == (paused.reason, done.operation.state, garage.phases)


def test_an_error_that_hides_the_pause_of_the_run_is_not_the_loops() -> None:
    """A function that turns `Stop` into an error of its own says nothing of the loop; the run pauses for its reason."""
    garage = Garage()

    def before(name: str, run: Any, round: Round) -> None:
        if name == "execute" and garage.ran["execute", 1] == 1:
            try:
                run.pause("nothing_to_do")
            except clew.Stop:
                raise LookupError("a bug") from None

    garage.before = before
    paused = garage.run()
    where = garage.phase
    done = garage.resume()

    assert ("nothing_to_do", "executing", "completed", WAY) == (
        paused.reason, where, done.operation.state, garage.phases,
    )  # fmt: skip


@faces
def test_an_abort_of_the_run_is_the_end_of_its_loop(way: str) -> None:
    """#218, #95: the loop says aborted too, before the run's own end."""
    garage = Garage(way)
    garage.before = telling(garage, "abort")

    result = garage.run()

    last = garage.loops[-1]
    assert ("failed", "aborted", "aborted", "aborted", 0) == (
        result.operation.state, result.reason, last["phase"], last["failureCode"], garage.ran["repair", 2],
    )  # fmt: skip
    assert ["loop", "operation", "finish"] == [line["kind"] for line in garage.lines][-3:]


def telling(garage: Garage, kind: str) -> Any:
    """While the first check runs, another process says this; an async check waits for what comes of it."""

    def before(name: str, run: Any, round: Round) -> Any:
        if (name, round.number, garage.ran["verify", 1]) != ("verify", 1, 1):
            return None
        garage.scene.memory.post(Command(1, "c-1", RUN, kind, "ops", "enough", {}))
        garage.scene.clock.advance(POLL_S)
        return asyncio.Event().wait() if garage.agent.is_async else None

    return before


@pytest.mark.parametrize(
    ("said", "evidence"),
    [
        (clew.Check(True), None),
        (clew.Check(True, 0.5, "all equal", ["42.00"]), {"score": 0.5, "reason": "all equal", "evidence": ["42.00"]}),
    ],
)
def test_a_check_of_a_run_is_a_verdict_of_a_loop(said: clew.Check, evidence: Any) -> None:
    """Whoever has written one for `run.check` gives it to a loop as it is, and nothing that it says is lost."""
    garage = Garage(verify=lambda run, round: said)

    result = garage.run()

    told = [json.loads(event["text"]) for event in garage.scene.said("step_output")]
    assert ("completed", "succeeded") == (result.operation.state, garage.phase)
    assert {"passed": True, "evidence": evidence} in told


# What is refused.


@pytest.mark.parametrize("said", [1, 0, None, "yes", [], {"passed": True}, ("yes", "it"), (True, 1, 2), Check("yes")])  # type: ignore[arg-type]  # what a user may return
def test_what_merely_looks_true_is_no_verdict(said: Any) -> None:
    """#211, promise 8: an answer of a shell, or a full list, is not a check that passed."""
    garage = Garage(verify=lambda run, round: said)

    result = garage.run()

    assert ("agent_error", "paused") == (result.reason, garage.phase)
    assert isinstance(result.fault, UsageError)
    assert "loop_check_invalid" == result.fault.code


@pytest.mark.parametrize("said", [(False, "no"), Check(passed=False), clew.Check(False, reason="no"), False])
def test_a_check_may_say_no_in_four_ways(said: Any) -> None:
    """A bool, a bool with evidence, or a Check, the loop's own or the one that `run.check` takes."""
    garage = Garage(verify=lambda run, round: said, config=LoopConfig(max_repairs=0))

    garage.run()

    assert "loop_exhausted" == garage.loops[-1]["failureCode"]


@pytest.mark.parametrize(
    ("given", "config"),
    [({"repair": None}, LoopConfig()), ({"plan": None}, LoopConfig(planning=True))],
    ids=["no repair", "no plan"],
)
def test_a_loop_that_lacks_a_function_it_may_need_is_refused(given: dict[str, Any], config: LoopConfig) -> None:
    """#217: `loop_config_invalid` before anything is done, not in the middle."""
    garage = Garage(config=config, **given)

    result = garage.run()

    assert isinstance(result.fault, UsageError)
    assert ("loop_config_invalid", [], {}) == (result.fault.code, garage.loops, garage.ran)


@faces
def test_a_run_has_one_loop(way: str) -> None:
    """A second one would take the records of the first for its own."""
    garage = Garage(way, good=1)
    once = garage._script

    def script(run: Any) -> Any:
        yield from once(run)
        yield from once(run)

    garage.agent = agent_of(way, script)
    result = garage.run()

    assert isinstance(result.fault, Refused)
    assert ("loop_state_invalid", 1) == (result.fault.code, garage.ran["execute", 1])


def test_a_loop_whose_steps_are_not_recorded_is_not_done_again() -> None:
    """#217: another loop than the recorded one; to do its missing steps now would be a guess."""
    garage = Garage()
    garage.works["plan"] = None
    garage.before = raising("verify", LookupError("a bug"))
    garage.run()
    garage.works["plan"] = lambda run, round: garage.ran.update([("plan", 0)])

    result = garage.resume()

    assert isinstance(result.fault, Refused)
    assert ("loop_snapshot_mismatch", "verifying", 0) == (
        result.fault.code, garage.loops[-1]["resumePhase"], garage.ran["plan", 0],
    )  # fmt: skip


def test_a_failed_loop_can_be_caught() -> None:
    """The agent decides: a run may well complete by saying that it did not work."""
    garage = Garage(good=9)

    def script(run: Any) -> Any:
        yield
        try:
            loop(run, **garage.works)
        except NotVerified as fault:
            return f"gave in: {fault.facts['reason']}"

    garage.agent = agent_of("plain", script)

    assert "gave in: loop_exhausted" == garage.run().output
