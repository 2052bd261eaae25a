"""Runs as OpenTelemetry sees them, by its real SDK: what is a span, what it says, and that nothing is one twice."""

import asyncio
import json
import shlex
import signal
import subprocess
import sys
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

import clew
from clew.integrations import otel
from clew.integrations.otel import Telemetry
from clew.testing.clock import NOON_MS
from clew.testing.crash import Crash, CrashPoint
from tests.house.tree import ROOT
from tests.runtime.scene import RUN, WAYS, Scene, agent_of, lose_the_line, paying, tool_of

ways = pytest.mark.parametrize("way", WAYS)
SECRET = "hunter2-and-more"
DYING = Path(__file__).with_name("dying.py")


class Spans:
    """A provider of its own, and what came out of it."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def telemetry(self, **how: Any) -> Telemetry:
        return Telemetry(tracer_provider=self.provider, **how)

    @property
    def all(self) -> list[ReadableSpan]:
        """In the order in which they ended."""
        return list(self.exporter.get_finished_spans())

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.all]

    def one(self, name: str) -> ReadableSpan:
        [found] = [span for span in self.all if span.name == name]
        return found

    def said(self, name: str) -> dict[str, Any]:
        return dict(self.one(name).attributes or {})

    def how(self, name: str) -> tuple[str, Any]:
        """Its status, and the type of its error."""
        span = self.one(name)
        return span.status.status_code.name, dict(span.attributes or {}).get("error.type")


def asking_and_paying(way: str, pay: clew.Tool, usage: clew.Usage | None = None) -> clew.Agent:
    def script(run: Any) -> Any:
        yield run.turn(lambda request: clew.Turn("pay it", usage), "which?")
        return (yield run.call(pay))

    return agent_of(way, script, pay)


def told(span: ReadableSpan, name: str) -> list[dict[str, Any]]:
    return [dict(event.attributes or {}) for event in span.events if event.name == name]


# One leg.


@ways
def test_a_leg_its_turn_and_its_call_are_spans(way: str) -> None:
    """The whole shape: who is inside of whom, and when, by the times that the journal holds."""
    scene, spans = Scene(), Spans()
    pay = paying(scene, way, lambda: scene.clock.advance(2))

    scene.run(asking_and_paying(way, pay), on_record=spans.telemetry())

    leg, turn, call = spans.one("invoke_agent agent"), spans.one("chat"), spans.one("execute_tool pay")
    assert ["chat", "execute_tool pay", "invoke_agent agent"] == spans.names
    assert [leg.context.span_id] * 2 == [each.parent.span_id for each in (turn, call) if each.parent]
    assert (None, 1) == (leg.parent, len({span.context.trace_id for span in spans.all}))
    assert (NOON_MS * 1_000_000, (NOON_MS + 2000) * 1_000_000) == (call.start_time, call.end_time)
    assert (SpanKind.CLIENT, SpanKind.INTERNAL, SpanKind.INTERNAL) == (turn.kind, call.kind, leg.kind)


@ways
def test_what_a_call_says(way: str) -> None:
    """Names, ids and the receipt; by the conventions' names where there are any."""
    scene, spans = Scene(), Spans()

    scene.run(asking_and_paying(way, paying(scene, way)), on_record=spans.telemetry())

    assert {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay", "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "c1", "clew.run.id": RUN, "clew.step.id": "pay-1", "clew.call.key": f"{RUN}:pay-1:c1",
        "clew.attempt": 1, "clew.effect": "external", "clew.replay": "unknown", "clew.receipt.status": "committed",
    } == spans.said("execute_tool pay")  # fmt: skip
    assert {
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "agent", "clew.run.id": RUN,
        "clew.leg.number": 1, "clew.leg.purpose": "run", "clew.outcome.status": "succeeded",
        "clew.outcome.reason": "completed",
    } == spans.said("invoke_agent agent")  # fmt: skip
    assert {"UNSET"} == {span.status.status_code.name for span in spans.all}


@ways
def test_what_a_turn_says_of_its_usage(way: str) -> None:
    """What a provider reported, by the conventions' names; money by ours."""
    scene, spans = Scene(), Spans()
    usage = clew.Usage(
        input_tokens=7, output_tokens=3, cache_read_tokens=2, cache_write_tokens=1, cost_micro_usd=40, tokens=10
    )

    scene.run(asking_and_paying(way, paying(scene, way), usage), on_record=spans.telemetry())

    assert {
        "gen_ai.operation.name": "chat", "clew.run.id": RUN, "clew.turn.id": "turn-1", "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3, "gen_ai.usage.cache_read.input_tokens": 2,
        "gen_ai.usage.cache_creation.input_tokens": 1, "clew.usage.tokens": 10, "clew.usage.cost_micro_usd": 40,
    } == spans.said("chat")  # fmt: skip


def test_usage_that_nobody_reported_is_no_number() -> None:
    """Promise 9: a zero would be added up."""
    scene, spans = Scene(), Spans()

    scene.run(asking_and_paying("plain", paying(scene, "plain")), on_record=spans.telemetry())

    said = spans.said("chat")
    assert (True, []) == (said["clew.usage.unmeasured"], [name for name in said if name.startswith("gen_ai.usage")])


def test_the_names_are_those_of_the_conventions() -> None:
    """A dashboard looks for exactly these."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as theirs
    from opentelemetry.semconv.attributes import error_attributes

    assert [
        theirs.GEN_AI_OPERATION_NAME, theirs.GEN_AI_AGENT_NAME, theirs.GEN_AI_TOOL_NAME, theirs.GEN_AI_TOOL_TYPE,
        theirs.GEN_AI_TOOL_CALL_ID, theirs.GEN_AI_TOOL_CALL_ARGUMENTS, theirs.GEN_AI_TOOL_CALL_RESULT,
        theirs.GEN_AI_USAGE_INPUT_TOKENS, theirs.GEN_AI_USAGE_OUTPUT_TOKENS,
        theirs.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS, theirs.GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS,
        error_attributes.ERROR_TYPE,
    ] == [
        otel.OPERATION, otel.AGENT_NAME, otel.TOOL_NAME, otel.TOOL_TYPE, otel.TOOL_CALL_ID, otel.TOOL_ARGUMENTS,
        otel.TOOL_RESULT, *list(otel.USAGE.values())[:4], otel.ERROR_TYPE,
    ]  # fmt: skip


# What went wrong, and what nobody knows.


@ways
def test_an_unknown_outcome_is_never_ok(way: str) -> None:
    """Promise 2, for whoever only looks at the traces: not a success, and not a plain error either."""
    scene, spans = Scene(), Spans()

    scene.run(asking_and_paying(way, paying(scene, way, lose_the_line)), on_record=spans.telemetry())

    assert ("ERROR", "unknown_outcome") == spans.how("execute_tool pay")
    assert "unknown" == spans.said("execute_tool pay")["clew.receipt.status"]
    assert ("ERROR", "unknown_effect") == spans.how("invoke_agent agent")


@ways
def test_what_a_probe_found_is_said_and_no_error(way: str) -> None:
    """It is known now: the attempt happened, by the probe's word."""
    scene, spans = Scene(), Spans()
    pay = paying(scene, way, lose_the_line, probe=scene.bank.find, in_doubt_s=0)

    result = scene.run(asking_and_paying(way, pay), on_record=spans.telemetry())

    said = spans.said("execute_tool pay")
    assert ("completed", ("UNSET", None)) == (result.operation.state, spans.how("execute_tool pay"))
    assert ("unknown", "happened", "probe") == (
        said["clew.receipt.status"], said["clew.review.outcome"], said["clew.review.source"],
    )  # fmt: skip


@ways
def test_each_attempt_is_a_span(way: str) -> None:
    """The first did not happen, by the bank's word, and the second did."""
    scene, spans, lost = Scene(), Spans(), [True]

    def pay(call: clew.Call, order: str = "a") -> str:
        if lost.pop() if lost else False:
            raise ConnectionError("the line is dead")
        return scene.bank.pay(call, order)

    tool = tool_of(way, pay, effect="external", probe=scene.bank.find, in_doubt_s=0)

    scene.run(asking_and_paying(way, tool), on_record=spans.telemetry())

    calls = [span for span in spans.all if span.name == "execute_tool pay"]
    assert [(1, "ERROR", "did_not_happen"), (2, "UNSET", None)] == [
        (said["clew.attempt"], span.status.status_code.name, said.get("error.type"))
        for span in calls
        for said in [dict(span.attributes or {})]
    ]


def fails() -> Any:
    return clew.Failed("no funds")


def declines() -> Any:
    raise clew.NothingHappened("declined")


@ways
@pytest.mark.parametrize(
    ("body", "kind", "receipt"), [(fails, "failed", "committed"), (declines, "nothing_happened", "unknown")]
)
def test_an_error_answer_is_an_error(way: str, body: Callable[[], Any], kind: str, receipt: str) -> None:
    """By the kind that the agent was told."""
    scene, spans = Scene(), Spans()
    body_tool = tool_of(way, body, effect="external")

    def script(run: Any) -> Any:
        with suppress(clew.ToolError):
            yield run.call(body_tool)

    scene.run(agent_of(way, script, body_tool), on_record=spans.telemetry())

    name = f"execute_tool {body.__name__}"
    assert (("ERROR", kind), receipt) == (spans.how(name), spans.said(name)["clew.receipt.status"])


@ways
def test_a_denied_call_says_that_it_was_not_started(way: str) -> None:
    """Promise 5."""
    scene, spans = Scene(), Spans()
    pay = paying(scene, way)

    def script(run: Any) -> Any:
        with suppress(clew.Denied):
            yield run.call(pay)

    scene.run(agent_of(way, script, pay, policy=lambda call: "no"), on_record=spans.telemetry())

    assert (("ERROR", "denied"), "not_started") == (
        spans.how("execute_tool pay"), spans.said("execute_tool pay")["clew.receipt.status"],
    )  # fmt: skip


def test_a_model_that_gave_no_answer_is_an_error() -> None:
    """It may have been paid all the same, so it is a span."""
    scene, spans = Scene(), Spans()

    def script(run: Any) -> Any:
        def ask(request: Any) -> Any:
            raise TimeoutError(SECRET)

        return (yield run.turn(ask, "?"))

    scene.run(agent_of("plain", script), on_record=spans.telemetry())

    assert (("ERROR", "no_answer"), ("ERROR", "agent_error")) == (spans.how("chat"), spans.how("invoke_agent agent"))


def test_a_pause_that_somebody_asked_for_is_no_error() -> None:
    """A limit is a decision, not a fault."""
    scene, spans = Scene(), Spans()

    scene.run(
        asking_and_paying("plain", paying(scene, "plain")), on_record=spans.telemetry(),
        budget=clew.RunBudget(max_calls=0),
    )  # fmt: skip

    leg = spans.one("invoke_agent agent")
    assert (("UNSET", None), "budget_exceeded") == (
        spans.how(leg.name), dict(leg.attributes or {})["clew.outcome.reason"],
    )  # fmt: skip
    assert [("clew.error.limit", True)] == [
        (name, bool(said[name])) for said in told(leg, "clew.error") for name in said if "limit" in name
    ]


def test_a_guard_that_denied_is_said_on_the_leg() -> None:
    """Who had to do with it, without its words."""
    spans, scene = Spans(), Scene()
    guard = clew.Extension("guard", "1.0", before_tool=lambda payload: SECRET, after_tool=lambda payload: None)
    home = clew.Home.memory(extensions=[guard], trusted={"guard": []}, clock=scene.clock)

    def agent(run: clew.SyncRun, prompt: Any) -> None:
        with suppress(clew.Denied):
            run.call(paying(scene, "plain"))

    home.run_sync(agent, signals=False, on_record=spans.telemetry())

    assert [
        {"clew.extension.id": "guard", "clew.extension.event": "before-tool", "clew.extension.status": "succeeded",
         "clew.extension.denied": True}
    ] == told(spans.one("invoke_agent agent"), "clew.extension")  # fmt: skip


def test_a_clock_that_was_set_back_makes_a_short_span_that_says_so() -> None:
    """Promise 9: a span that ends before it begins is thrown away by backends, or shown as a year."""
    scene, spans = Scene(), Spans()
    pay = paying(scene, "plain", lambda: scene.clock.set_wall(NOON_MS - 5000))

    scene.run(asking_and_paying("plain", pay), on_record=spans.telemetry())

    call = spans.one("execute_tool pay")
    assert (call.start_time, True) == (call.end_time, dict(call.attributes or {})["clew.clock_stepped"])


# Content.


def everything_in(spans: Spans) -> str:
    return "".join(span.to_json() for span in spans.all)


@ways
@pytest.mark.parametrize("fault", [False, True])
def test_without_content_no_argument_and_no_answer_is_told(way: str, fault: bool) -> None:
    """Traces go to other people's machines; names and ids are enough to count and to find."""
    scene, spans = Scene(), Spans()

    def pay(order: str, note: str) -> str:
        if fault:
            raise ConnectionError("answer of the bank")
        return "answer of the bank"

    tool = tool_of(way, pay, effect="external")

    def script(run: Any) -> Any:
        yield run.turn(lambda request: "answer of the model", "question to the model")
        yield run.step("plan", lambda: "answer of the step")
        yield run.call(tool, order="order-77", note=SECRET)
        raise LookupError("words of the agent")

    scene.run(agent_of(way, script, tool), "input of the run", on_record=spans.telemetry())

    found = everything_in(spans)
    words = ("order-77", SECRET, "answer of", "question to", "input of", "words of", "the line")
    assert [] == [word for word in words if word in found]


def test_content_is_told_as_it_is_recorded_to_whoever_asks_for_it() -> None:
    """Opt-in, and with the secrets hidden that the journal hides."""
    scene, spans = Scene(), Spans()

    def pay(order: str, password: str) -> list[str]:
        return ["paid", order]

    tool = tool_of("plain", pay, effect="external")

    def script(run: Any) -> Any:
        yield run.turn(lambda request: "pay it", "which?")
        yield run.call(tool, order="77", password=SECRET)
        raise LookupError("words of the agent")

    scene.run(agent_of("plain", script, tool), {"pay": 77}, on_record=spans.telemetry(content=True))

    leg = spans.one("invoke_agent agent")
    assert ('{"order":"77","password":"[redacted:password]"}', '["paid","77"]') == tuple(
        spans.said("execute_tool pay")[name] for name in ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result")
    )
    assert ('"pay it"', '{"pay":77}', "LookupError: words of the agent") == (
        spans.said("chat")["clew.turn.answer"], dict(leg.attributes or {})["clew.input"], leg.status.description,
    )  # fmt: skip
    assert SECRET not in everything_in(spans)


# Over legs.


@ways
def test_what_is_replayed_is_not_told_again(way: str) -> None:
    """A payment that is counted twice in a dashboard is as good as a payment made twice to whoever reads it."""
    scene, spans, broken = Scene(), Spans(), [True]
    pay = paying(scene, way)

    def script(run: Any) -> Any:
        yield run.turn(lambda request: "pay it", "which?")
        yield run.call(pay, order="a")
        if broken.pop() if broken else False:
            raise LookupError("a bug")
        return (yield run.call(pay, order="b"))

    agent = agent_of(way, script, pay)
    scene.run(agent, on_record=spans.telemetry())

    result = scene.resume(agent, on_record=spans.telemetry(home=scene.home()))

    assert ("completed", 2) == (result.operation.state, len(scene.bank.paid))
    assert Counter({"execute_tool pay": 2, "invoke_agent agent": 2, "chat": 1}) == Counter(spans.names)
    assert [1, 2] == [
        dict(span.attributes or {})["clew.leg.number"] for span in spans.all if span.name == "invoke_agent agent"
    ]


@ways
@pytest.mark.parametrize(("good", "how"), [(True, ("UNSET", None)), (False, ("ERROR", "LookupError"))])
def test_reading_again_after_a_death_is_a_span_without_a_beginning(way: str, good: bool, how: tuple[str, Any]) -> None:
    """A free call of an earlier leg is done again under its old record: when it began this time is not known."""
    scene, spans = Scene(), Spans()

    def look() -> str:
        if not good:
            raise LookupError("nothing there")
        return "seen"

    tool = tool_of(way, look, effect="none")

    def script(run: Any) -> Any:
        with suppress(clew.ToolError):
            yield run.call(tool)

    agent = agent_of(way, script, tool)
    with suppress(Crash, clew.Storage):
        scene.run(agent, point=CrashPoint(2, 0), on_record=spans.telemetry())
    scene.die()

    scene.resume(agent, on_record=spans.telemetry())

    call = spans.one("execute_tool look")
    assert (how, False) == (spans.how(call.name), spans.said(call.name)["clew.start_recorded"])
    assert call.start_time == call.end_time


@ways
def test_an_answer_that_must_not_be_kept_ends_its_call(way: str, caplog: pytest.LogCaptureFixture) -> None:
    """The receipt is the last record of a secret tool's call, so it is where its span ends, once."""
    scene, spans = Scene(), Spans()

    def token() -> str:
        return SECRET

    tool = tool_of(way, token, effect="external", secret=True)

    def script(run: Any) -> Any:
        yield run.call(tool)
        scene.clock.advance(3)

    scene.run(agent_of(way, script, tool), on_record=spans.telemetry())

    said = spans.said("execute_tool token")
    assert (("UNSET", None), "withheld", NOON_MS * 1_000_000) == (
        spans.how("execute_tool token"), said["clew.persistence"], spans.one("execute_tool token").end_time,
    )  # fmt: skip
    assert [] == [line for line in caplog.records if line.name.startswith("opentelemetry")]


def test_a_leg_whose_agent_nobody_can_name_has_no_name() -> None:
    """The record of a resume does not have it; it is not guessed."""
    scene, spans, broken = Scene(), Spans(), [True]

    def script(run: Any) -> Any:
        yield from ()
        if broken.pop() if broken else False:
            raise LookupError("a bug")

    agent = agent_of("plain", script)
    scene.run(agent)

    scene.resume(agent, on_record=spans.telemetry())

    assert (["invoke_agent"], False) == (spans.names, "gen_ai.agent.name" in spans.said("invoke_agent"))


@ways
@pytest.mark.parametrize("at", range(1, 8))
@pytest.mark.parametrize("keep", [0, None])
def test_no_attempt_and_no_turn_is_told_twice_whenever_the_process_dies(way: str, at: int, keep: int | None) -> None:
    """Each leg is a process with a telemetry of its own, which knows nothing of the one before."""
    scene, spans = Scene(), Spans()
    pay = paying(scene, way, probe=scene.bank.find, in_doubt_s=0)

    def script(run: Any) -> Any:
        yield run.turn(lambda request: "pay it", "which?")
        first = yield run.call(pay, order="a")
        return [first, (yield run.call(pay, order="b"))]

    agent = agent_of(way, script, pay)
    with suppress(Crash, clew.Storage):
        scene.run(agent, point=CrashPoint(at, keep), on_record=spans.telemetry())
    scene.die()
    if scene.state.finish is None:
        scene.resume(agent, on_record=spans.telemetry())

    said = [dict(span.attributes or {}) for span in spans.all]
    attempts = Counter((each["clew.call.key"], each["clew.attempt"]) for each in said if "clew.call.key" in each)
    turns = [each for each in said if "clew.turn.id" in each and "error.type" not in each]
    assert (2, []) == (len(scene.bank.paid), [name for name, count in attempts.items() if count > 1])
    assert len(turns) <= 1
    assert {"a": 1, "b": 1} == dict(scene.bank.orders)


def test_a_run_that_was_really_killed_and_resumed_tells_each_thing_once(tmp_path: Path) -> None:
    """Two real processes, a SIGKILL behind a payment, and one file of spans from both."""
    spans = tmp_path / "spans"

    def go(deed: str) -> int:
        command = [sys.executable, str(DYING), deed, str(spans)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode

    ends = [go("run"), go("resume")]

    found = [json.loads(line) for line in spans.read_text("utf-8").splitlines()]
    calls = [(each["clew.call.key"], each["clew.receipt.status"]) for each in found if "clew.call.key" in each]
    assert [-signal.SIGKILL, 0] == ends
    assert ["chat", "execute_tool pay", "execute_tool pay", "invoke_agent settle"] == [each["name"] for each in found]
    assert [("r1:pay-1:c1", "committed"), ("r1:pay-3:c3", "committed")] == calls
    assert SECRET not in spans.read_text("utf-8")
    assert 3 == len((tmp_path / "books").read_text("utf-8").splitlines())


# Around it.


def test_a_leg_is_inside_of_the_span_that_is_open_where_it_runs() -> None:
    """A web request that starts a run wants to find it below itself."""
    scene, spans = Scene(), Spans()
    tracer = spans.provider.get_tracer("web")

    async def main() -> None:
        with tracer.start_as_current_span("POST /settle"):
            pay = paying(scene, "async")
            await scene.home().run(asking_and_paying("async", pay), run_id=RUN, on_record=spans.telemetry())

    asyncio.run(main())

    leg, request = spans.one("invoke_agent agent"), spans.one("POST /settle")
    assert leg.parent is not None
    assert request.context.span_id == leg.parent.span_id


def test_nothing_global_is_changed() -> None:
    """It is a library in somebody's program."""
    before = trace.get_tracer_provider()
    scene = Scene()

    scene.run(asking_and_paying("plain", paying(scene, "plain")), on_record=Telemetry())

    assert before is trace.get_tracer_provider()
    assert not trace.get_current_span().get_span_context().is_valid


def test_without_an_sdk_a_run_is_what_it_is() -> None:
    """The API alone makes spans that nobody keeps."""
    watched, plain = Scene(), Scene()

    watched.run(asking_and_paying("plain", paying(watched, "plain")), on_record=Telemetry(content=True))
    plain.run(asking_and_paying("plain", paying(plain, "plain")))

    assert plain.memory.raw(RUN) == watched.memory.raw(RUN)


def test_many_runs_share_one_telemetry() -> None:
    """One for the program; each run's spans are its own."""
    spans, scene = Spans(), Scene()
    telemetry, home = spans.telemetry(), clew.Home.memory(clock=scene.clock)

    async def agent(run: clew.Run, prompt: Any) -> None:
        await run.turn(lambda request: "hi", "?")

    async def main() -> None:
        await asyncio.gather(*(home.run(agent, run_id=f"run-{n}", on_record=telemetry) for n in range(5)))

    asyncio.run(main())

    legs = {span.context.span_id: span for span in spans.all if span.name == "invoke_agent agent"}
    turns = [span for span in spans.all if span.name == "chat"]
    assert {f"run-{n}": f"run-{n}" for n in range(5)} == {
        (turn.attributes or {})["clew.run.id"]: (legs[turn.parent.span_id].attributes or {})["clew.run.id"]
        for turn in turns
        if turn.parent is not None
    }


def test_a_leg_whose_journal_failed_is_ended_as_cut_off() -> None:
    """Promise 8: nobody was told how it closed, so no trace may look as if it had gone well."""
    scene, spans = Scene(), Spans()

    with (
        pytest.raises((Crash, clew.Storage)),
        spans.telemetry() as telemetry,
    ):
        scene.run(asking_and_paying("plain", paying(scene, "plain")), point=CrashPoint(4, 0), on_record=telemetry)

    assert (("ERROR", "leg_not_closed"), ("ERROR", "unknown_outcome")) == (
        spans.how("invoke_agent agent"), spans.how("execute_tool pay"),
    )  # fmt: skip


def test_a_run_that_comes_back_ends_the_leg_that_was_not_closed() -> None:
    """In one program: the leg before it ended without a word."""
    scene, spans = Scene(), Spans()
    telemetry = spans.telemetry()
    agent = asking_and_paying("plain", paying(scene, "plain", probe=scene.bank.find, in_doubt_s=0))
    with suppress(Crash, clew.Storage):
        scene.run(agent, point=CrashPoint(4, 0), on_record=telemetry)
    scene.die()

    scene.resume(agent, on_record=telemetry)

    assert ["ERROR", "UNSET"] == [
        span.status.status_code.name for span in spans.all if span.name.startswith("invoke_agent")
    ]


def test_without_the_extra_the_import_says_what_to_install() -> None:
    """The package is not there for most users, and its name is not clew's."""
    code = "import sys; sys.modules['opentelemetry'] = None; import clew.integrations.otel"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)

    assert 1 == done.returncode
    assert "clew.integrations.otel needs the OpenTelemetry API, which is not installed" in done.stderr


def test_the_error_without_the_extra_has_a_next_step() -> None:
    """As every error of clew."""
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "import clew\n"
        "try:\n    import clew.integrations.otel\n"
        "except clew.ClewError as error:\n    print(error.code, error.next, sep='|')"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert f"otel_not_installed|Install it with `pip install {shlex.join(extras['otel'])}`.\n" == done.stdout
