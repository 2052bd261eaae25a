"""Extensions in living runs: who is asked when, what a denial and a failure come to, and what is left of it all."""

import _thread
import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import clew
from clew.testing.crash import Crash, CrashPoint, crashing
from tests.runtime.scene import RUN, WAYS, Scene, agent_of, lose_the_line, paying, tool_of

ways = pytest.mark.parametrize("way", WAYS)
SECRET = "hunter2-and-more"
MOMENTS = ("before_model", "before_tool", "after_tool", "run_finished")


class Watched(Scene):
    """A scene whose homes have extensions, all of them trusted."""

    def __init__(self, *extensions: clew.Extension) -> None:
        super().__init__()
        self.extensions = extensions

    def home(self, point: CrashPoint | None = None, *, store: Any = None) -> clew.Home:
        inner = store or (self.memory if point is None else crashing(self.memory, point))
        return clew.Home(
            ".clew", takeover="proven", store=inner, blobs=self.blobs, clock=self.clock, extensions=self.extensions,
            trusted={extension.id: extension.capabilities for extension in self.extensions},
        )  # fmt: skip

    @property
    def receipts(self) -> list[tuple[Any, ...]]:
        """Who was told of what, in the order of the journal: id, moment, how it ended, whether it denied."""
        found = self.said("extension_lifecycle")
        return [(each["extensionId"], each["lifecycle"], each["status"], each.get("denied", False)) for each in found]


class Listener:
    """Remembers what it was given, and then does what it was made for."""

    def __init__(self, does: Callable[[Any], Any] = lambda payload: None) -> None:
        self.heard: list[Any] = []
        self.does = does

    def __call__(self, payload: Any) -> Any:
        self.heard.append(payload)
        return self.does(payload)

    async def later(self, payload: Any) -> Any:
        return self(payload)


def declared(id: str, moment: str, handler: Any, **how: Any) -> clew.Extension:
    given = {"timeout_s": 30, **how, moment: handler}
    return clew.Extension(id, "1.0", **given)


def raises(payload: Any) -> None:
    raise ValueError("a bug")


def says(reason: Any) -> Callable[[Any], Any]:
    return lambda payload: reason


async def never(payload: Any) -> None:
    await asyncio.Event().wait()


def buyer(way: str, pay: clew.Tool, *orders: str, **arguments: Any) -> clew.Agent:
    """Pays, and says of each order what it was told."""

    def script(run: Any) -> Any:
        told = []
        for order in orders or ("a",):
            try:
                told.append((yield run.call(pay, order=order, **arguments)))
            except clew.ToolError as error:
                told.append(f"{type(error).__name__}: {error.message}")
        return told

    return agent_of(way, script, pay)


# Denying.


@ways
def test_a_denial_is_the_agents_answer_and_nothing_starts(way: str) -> None:
    """#244: the tool is never begun, and the journal says who would not have it."""
    scene = Watched(declared("guard", "before_tool", says("not today")))

    result = scene.run(buyer(way, paying(scene, way)))

    assert (["Denied: extension guard: not today"], []) == (result.output, scene.bank.paid)
    assert [
        "succeeded", "tool_call", "capability_resolved", "policy_denied", "not_started", "step_output", "tool_result",
        "agent_end",
    ] == scene.words  # fmt: skip
    assert [("guard", "before-tool", "succeeded", True)] == scene.receipts


@ways
def test_what_an_extension_lets_pass_is_done_in_two_appends(way: str) -> None:
    """Receipts ride along: looking on must not cost a sync."""
    scene, point = Watched(declared("guard", "before_tool", says(None), after_tool=says(None))), CrashPoint()

    result = scene.run(buyer(way, paying(scene, way)), point=point)

    assert ("completed", 1, 3) == (result.operation.state, len(scene.bank.paid), len(point.appends))
    assert [("guard", "before-tool", "succeeded", False), ("guard", "after-tool", "succeeded", False)] == scene.receipts


@ways
@pytest.mark.parametrize("answer", [None, True, "allow"])
def test_nothing_that_an_extension_says_allows_what_the_policy_denied(way: str, answer: Any) -> None:
    """#244: it is not even asked."""
    guard = Listener(says(answer))
    scene = Watched(declared("guard", "before_tool", guard))
    pay = paying(scene, way)
    agent = buyer(way, pay)
    agent.policy = lambda call: "no"

    result = scene.run(agent)

    assert (["Denied: no"], [], []) == (result.output, scene.bank.paid, guard.heard)


@ways
@pytest.mark.parametrize("answer", [True, False, 0, {}, b"", ["allow"]], ids=repr)
def test_an_answer_that_is_no_reason_denies(way: str, answer: Any) -> None:
    """#244: `return True` may mean either; what was not said clearly was not allowed."""
    scene = Watched(declared("guard", "before_tool", says(answer)))

    result = scene.run(buyer(way, paying(scene, way)))

    assert (["Denied: extension guard failed"], []) == (result.output, scene.bank.paid)


def test_an_empty_reason_denies_too() -> None:
    """As a policy's does: it is a text, not None."""
    scene = Watched(declared("guard", "before_tool", says("")))

    result = scene.run(buyer("plain", paying(scene, "plain")))

    assert ["Denied: extension guard: denied"] == result.output


@ways
def test_a_guard_that_raises_denies(way: str) -> None:
    """#243, W50: a deny policy that fails open is none."""
    scene = Watched(declared("guard", "before_tool", raises))

    result = scene.run(buyer(way, paying(scene, way)))

    assert (["Denied: extension guard failed"], []) == (result.output, scene.bank.paid)
    assert [("guard", "before-tool", "failed", True)] == scene.receipts
    assert ["ValueError: a bug"] == [event["error"] for event in scene.said("extension_lifecycle")]


@ways
def test_a_guard_that_takes_too_long_denies(way: str) -> None:
    """#243, W50: and its handler does not go on behind the answer."""
    scene = Watched(declared("guard", "before_tool", never, timeout_s=0.02))

    result = scene.run(buyer(way, paying(scene, way)))

    assert (["Denied: extension guard took too long"], []) == (result.output, scene.bank.paid)
    assert ["no answer within 0.02 s; it was cancelled"] == [
        event["error"] for event in scene.said("extension_lifecycle")
    ]


def test_the_time_that_a_handler_has_is_a_second() -> None:
    """#243: unless its author says otherwise."""
    assert 1.0 == clew.Extension("guard", "1.0", before_tool=says(None)).timeout_s


@ways
def test_extensions_are_asked_in_the_order_of_their_ids_until_one_denies(way: str) -> None:
    """#242: who comes later is not asked about a call that is denied already."""
    order: list[str] = []

    def asked(name: str, answer: Any = None) -> clew.Extension:
        def handler(payload: Any) -> Any:
            order.append(name)
            return answer

        return declared(name, "before_tool", handler)

    scene = Watched(asked("c"), asked("b", "no"), asked("a"))

    scene.run(buyer(way, paying(scene, way)))

    assert ["a", "b"] == order


@ways
def test_a_free_tool_is_asked_about_as_well(way: str) -> None:
    """Reading may be what must not happen."""
    scene = Watched(declared("guard", "before_tool", says("no")))
    looked: list[str] = []

    def look(order: str) -> None:
        looked.append(order)

    result = scene.run(buyer(way, tool_of(way, look, effect="none")))

    assert (["Denied: extension guard: no"], []) == (result.output, looked)


FATES = {
    "passes": (says(None), False),
    "denies": (says("no"), True),
    "raises": (raises, True),
    "odd": (says(1), True),
    "too late": (never, True),
    "absent": (None, False),
}


@given(
    st.lists(st.sampled_from(sorted(FATES)), max_size=5), st.permutations(range(5)), st.sampled_from(WAYS),
    st.sampled_from([None, "no"]), st.booleans(),
)  # fmt: skip
def test_no_order_and_no_failure_turns_a_denied_call_into_a_started_one(
    fates: list[str], order: list[int], way: str, policy: str | None, dies: bool
) -> None:
    """#244, W50: whatever they do, in whatever order, and through a death: one objection is enough."""
    extensions = []
    for number, fate in enumerate(fates):
        handler, _ = FATES[fate]
        observer = {"after_tool": raises} if handler is None else {}
        extensions.append(declared(f"e{order[number]}", "before_tool", handler, timeout_s=0.01, **observer))
    scene = Watched(*extensions)
    agent = buyer(way, paying(scene, way))
    agent.policy = None if policy is None else says(policy)
    if dies:
        with pytest.raises((Crash, clew.Storage)):
            scene.run(agent, point=CrashPoint(2, 0))
        scene.die()
    denied = policy is not None or any(FATES[fate][1] for fate in fates)

    result = scene.resume(agent) if dies else scene.run(agent)

    started = "started" in scene.words
    assert (not denied, 0 if denied else 1) == (started, len(scene.bank.paid))
    if denied or not dies:
        assert "completed" == result.operation.state


# What they are given.


@ways
def test_without_the_grant_secrets_are_hidden_and_with_it_they_are_true(way: str) -> None:
    """#242: a watcher sees what the journal holds; a guard that must compare a token asks for more."""
    plain, granted = Listener(), Listener()
    scene = Watched(
        declared("plain", "before_tool", plain),
        declared("granted", "before_tool", granted, capabilities=["credentials"]),
    )

    def pay(call: clew.Call, order: str, password: str) -> str:
        return scene.bank.pay(call, order)

    scene.run(buyer(way, tool_of(way, pay, effect="external"), password=SECRET))

    assert [{"order": "a", "password": "[redacted:password]"}] == [each["arguments"] for each in plain.heard]
    assert [{"order": "a", "password": SECRET}] == [each["arguments"] for each in granted.heard]
    assert scene.said("tool_call")[0]["args"] == plain.heard[0]["arguments"]


@ways
def test_what_a_handler_is_given_before_a_tool(way: str) -> None:
    """Enough to decide, and the names under which the journal will know the call."""
    guard = Listener()
    scene = Watched(declared("guard", "before_tool", guard))

    scene.run(buyer(way, paying(scene, way, replay="idempotent", window_s=60)))

    assert [
        {
            "runId": RUN, "agent": "agent", "tool": "pay", "stepId": "pay-1", "callId": "c1", "turnId": "turn-0",
            "idempotencyKey": f"{RUN}:pay-1:c1", "attempt": 1, "effect": "external", "replay": "idempotent",
            "arguments": {"order": "a"},
        }
    ] == guard.heard  # fmt: skip


@ways
def test_a_handler_cannot_change_what_the_gate_uses(way: str) -> None:
    """#242: the tool gets what the agent gave, whatever was tried; trying it is a failure, and so a denial."""

    def meddle(payload: Any) -> None:
        payload["arguments"]["order"] = "mine"

    def force(payload: Any) -> None:
        dict.__setitem__(payload["arguments"], "order", "mine")

    scene = Watched(declared("force", "before_tool", force, capabilities=["credentials"]))
    meddled = Watched(declared("meddle", "before_tool", meddle, capabilities=["credentials"]))

    scene.run(buyer(way, paying(scene, way)))
    result = meddled.run(buyer(way, paying(meddled, way)))

    assert ({"a": 1}, ["Denied: extension meddle failed"]) == (scene.bank.orders, result.output)


@ways
def test_how_a_call_ended_is_told_once_it_is_durable(way: str) -> None:
    """A watcher that acts on it must not know more than the disk."""
    scene: Watched

    def durable(payload: Any) -> None:
        assert "committed" in scene.words

    watch = Listener(durable)
    scene = Watched(declared("watch", "after_tool", watch))

    scene.run(buyer(way, paying(scene, way)))

    told = {name: watch.heard[0][name] for name in ("tool", "attempt", "status", "answered", "error")}
    assert {"tool": "pay", "attempt": 1, "status": "committed", "answered": True, "error": None} == told
    assert str(watch.heard[0]["result"]).startswith("transfer-")
    assert [("watch", "after-tool", "succeeded", False)] == scene.receipts


@ways
def test_an_outcome_that_nobody_knows_is_told_as_such(way: str) -> None:
    """Promise 2: unknown is never an answer, for a watcher neither."""
    watch = Listener()
    scene = Watched(declared("watch", "after_tool", watch))

    result = scene.run(buyer(way, paying(scene, way, lose_the_line)))

    assert [("unknown", False, None)] == [(each["status"], each["answered"], each["result"]) for each in watch.heard]
    assert ("paused", 21) == (result.operation.state, result.exit_code)


@ways
def test_a_tool_that_failed_is_told_with_its_error(way: str) -> None:
    """What the agent was told, no more."""
    watch = Listener()
    scene = Watched(declared("watch", "after_tool", watch))

    def fails(order: str) -> Any:
        return clew.Failed("no funds", {"left": 3})

    scene.run(buyer(way, tool_of(way, fails, effect="external")))

    assert [("committed", True, {"kind": "failed", "message": "no funds"}, {"left": 3})] == [
        (each["status"], each["answered"], each["error"], each["result"]) for each in watch.heard
    ]


@ways
def test_of_a_call_that_was_denied_no_end_is_told(way: str) -> None:
    """Its tool never ran, so nothing came after it."""
    watch = Listener()
    scene = Watched(declared("guard", "before_tool", says("no"), after_tool=watch))

    scene.run(buyer(way, paying(scene, way)))

    assert [] == watch.heard


@ways
@pytest.mark.parametrize(("capabilities", "seen"), [([], None), (["credentials"], SECRET)])
def test_the_answer_of_a_secret_tool_needs_the_grant(way: str, capabilities: list[str], seen: Any) -> None:
    """#242: what is never stored is not handed on either."""
    watch = Listener()
    scene = Watched(declared("watch", "after_tool", watch, capabilities=capabilities))

    def token(order: str) -> str:
        return SECRET

    scene.run(buyer(way, tool_of(way, token, effect="none", secret=True)))

    assert [seen] == [each["result"] for each in watch.heard]


@ways
@pytest.mark.parametrize(("capabilities", "seen"), [([], "[redacted:password]"), (["credentials"], SECRET)])
def test_a_model_is_told_of_before_it_is_asked(way: str, capabilities: list[str], seen: str) -> None:
    """#242: the request is the conversation, with all that stands in it."""
    order: list[str] = []
    watch = Listener(lambda payload: order.append("told"))
    scene = Watched(declared("watch", "before_model", watch, capabilities=capabilities))
    agent = agent_of(way, lambda run: (yield run.turn(lambda asked: order.append("asked"), {"password": SECRET})))

    scene.run(agent)

    assert (["told", "asked"], [{"password": seen}]) == (order, [each["request"] for each in watch.heard])
    assert ("turn-1", scene.said("agent_start")[0]["requestFingerprint"]) == (
        watch.heard[0]["turnId"], watch.heard[0]["requestFingerprint"],
    )  # fmt: skip
    assert ["succeeded", "agent_start", "step_output", "turn_end", "agent_end"] == scene.words


@ways
def test_what_was_raised_by_who_knows_secrets_is_recorded_by_its_kind_alone(way: str) -> None:
    """The text of an error often repeats what it could not handle."""

    def leaks(payload: Any) -> None:
        raise ValueError(payload["arguments"]["password"])

    scene = Watched(declared("guard", "before_tool", leaks, capabilities=["credentials"]))

    def pay(call: clew.Call, order: str, password: str) -> str:
        return scene.bank.pay(call, order)

    scene.run(buyer(way, tool_of(way, pay, effect="external"), password=SECRET))

    assert ["ValueError"] == [event["error"] for event in scene.said("extension_lifecycle")]
    assert SECRET not in scene.memory.raw(RUN).decode()


# Looking on.


@ways
@pytest.mark.parametrize("moment", ["before_model", "after_tool", "run_finished"])
@pytest.mark.parametrize(("handler", "status"), [(raises, "failed"), (never, "timed_out"), (says("no"), "succeeded")])
def test_who_only_looks_on_never_hurts_the_run(way: str, moment: str, handler: Any, status: str) -> None:
    """#243, #244: whatever it returns, raises or does not say becomes a receipt and nothing else."""
    scene = Watched(declared("watch", moment, handler, timeout_s=0.02))
    pay = paying(scene, way)

    def script(run: Any) -> Any:
        yield run.turn(says("hi"), "?")
        return (yield run.call(pay))

    result = scene.run(agent_of(way, script, pay))

    assert ("completed", 1) == (result.operation.state, len(scene.bank.paid))
    assert [("watch", moment.replace("_", "-"), status, False)] == scene.receipts


@ways
def test_the_end_of_a_run_is_told_when_it_is_durable_and_before_it_is_closed(way: str) -> None:
    """No false success: `completed` is on disk first; the receipts stand before the last record."""
    scene: Watched
    seen: list[Any] = []

    def look(payload: Any) -> None:
        seen.append((scene.state.state, scene.state.finish, payload["state"], payload["output"]))

    scene = Watched(declared("watch", "run_finished", look))

    scene.run(buyer(way, paying(scene, way)))

    paid = (f"transfer-{clew.Call(scene.bank.paid[0]).short}",)
    assert [("completed", None, "completed", paid)] == seen
    assert ["extension_lifecycle", "finish"] == [
        line["payload"].get("event", {}).get("type", line["kind"]) for line in scene.lines[-2:]
    ]


@ways
def test_a_run_that_failed_is_told_without_an_output(way: str) -> None:
    """It has none."""
    watch = Listener()
    scene = Watched(declared("watch", "run_finished", watch))

    def script(run: Any) -> Any:
        yield from ()
        raise LookupError("a bug")

    scene.run(agent_of(way, script), on_error="fail")

    assert [("failed", "agent_error", None)] == [
        (each["state"], each["reason"], each["output"]) for each in watch.heard
    ]


@ways
def test_a_run_that_failed_for_an_output_too_large_is_told_so(way: str) -> None:
    """Its first end could not be written; what was told is the one that was."""
    watch = Listener()
    scene = Watched(declared("watch", "run_finished", watch))

    def script(run: Any) -> Any:
        yield from ()
        return "x" * (33 << 20)

    scene.run(agent_of(way, script), on_error="fail")

    assert [("failed", "agent_error", None)] == [
        (each["state"], each["reason"], each["output"]) for each in watch.heard
    ]


@ways
def test_a_pause_is_not_the_end(way: str) -> None:
    """A run that waits for a person has not finished."""
    watch = Listener()
    scene = Watched(declared("watch", "run_finished", watch))

    result = scene.run(buyer(way, paying(scene, way, lose_the_line)))

    assert ("paused", []) == (result.operation.state, watch.heard)


@ways
def test_a_death_while_the_end_is_told_leaves_a_completed_run(way: str) -> None:
    """The end was durable already; the next process only closes it, and asks nobody."""
    watch = Listener()
    scene = Watched(declared("watch", "run_finished", watch))

    def script(run: Any) -> Any:
        yield from ()
        return "done"

    agent = agent_of(way, script)
    with pytest.raises((Crash, clew.Storage)):
        scene.run(agent, point=CrashPoint(2, 0))
    scene.die()

    result = scene.resume(agent)

    assert ("completed", "done", 1) == (result.operation.state, result.output, len(watch.heard))


# Over legs.


@ways
def test_a_call_that_is_replayed_is_told_to_nobody(way: str) -> None:
    """It is not done again, so there is nothing to deny and nothing that has happened."""
    listeners = {moment: Listener() for moment in MOMENTS}
    scene = Watched(declared("watch", "before_tool", listeners["before_tool"], **_rest(listeners)))
    pay, broken = paying(scene, way), [True]

    def script(run: Any) -> Any:
        yield run.turn(says("hi"), "?")
        paid = yield run.call(pay)
        if broken.pop() if broken else False:
            raise LookupError("a bug")
        return paid

    agent = agent_of(way, script, pay)
    scene.run(agent)

    scene.resume(agent)

    assert dict.fromkeys(MOMENTS, 1) == {moment: len(each.heard) for moment, each in listeners.items()}


def _rest(listeners: Mapping[str, Listener]) -> dict[str, Any]:
    return {moment: listener for moment, listener in listeners.items() if moment != "before_tool"}


@ways
def test_a_recorded_denial_is_replayed_although_the_guard_has_gone(way: str) -> None:
    """The agent was told so; a home without the guard must not tell it otherwise."""
    guard = Listener(says("not today"))
    scene, broken = Watched(declared("guard", "before_tool", guard)), [True]
    pay = paying(scene, way)

    def script(run: Any) -> Any:
        told = ""
        try:
            yield run.call(pay)
        except clew.Denied as error:
            told = error.message
        if broken.pop() if broken else False:
            raise LookupError("a bug")
        return told

    agent = agent_of(way, script, pay)
    scene.run(agent)
    scene.extensions = ()

    result = scene.resume(agent)

    assert ("extension guard: not today", 1, []) == (result.output, len(guard.heard), scene.bank.paid)


@ways
def test_a_start_by_idempotence_is_asked_about_as_well(way: str) -> None:
    """A guard that was put up meanwhile may be the very reason for the stop; a person decides then."""
    scene = Watched()
    pay = paying(scene, way, replay="idempotent", window_s=3600)
    agent = buyer(way, pay)
    with pytest.raises((Crash, clew.Storage)):
        scene.run(agent, point=CrashPoint(2, 0))
    scene.die()
    scene.extensions = (declared("guard", "before_tool", says("stop all payments")),)

    result = scene.resume(agent)

    assert ("paused", "unknown_effect", 1) == (result.operation.state, result.reason, len(scene.bank.paid))
    assert [("guard", "before-tool", "succeeded", True)] == scene.receipts


@ways
def test_the_snapshot_counts_all_legs(way: str) -> None:
    """W25: what happened before the pause is in the final account."""
    scene, broken = Watched(declared("guard", "before_tool", says(None))), [True]
    pay = paying(scene, way)

    def script(run: Any) -> Any:
        yield run.call(pay, order="a")
        if broken.pop() if broken else False:
            raise LookupError("a bug")
        return (yield run.call(pay, order="b"))

    agent = agent_of(way, script, pay)
    scene.run(agent)

    snapshot = scene.resume(agent).snapshot

    assert [{"extensionId": "guard", "extensionVersion": "1.0", "event": "before-tool", "status": "succeeded",
             "count": 2, "durationMs": 0}] == snapshot["extensions"]  # fmt: skip
    assert snapshot["extensions"] == scene.lines[-1]["payload"]["extensions"]


@ways
@pytest.mark.parametrize("at", range(1, 4))
@pytest.mark.parametrize("keep", [0, 1, 700, None])
def test_a_death_at_any_append_of_a_denial_starts_nothing(way: str, at: int, keep: int | None) -> None:
    """W50: neither the receipt nor the denial has to be whole on disk for the call to stay undone."""
    scene = Watched(declared("guard", "before_tool", says("no"), after_tool=says(None)))
    agent = buyer(way, paying(scene, way), "a", "b")
    with suppress(Crash, clew.Storage):
        scene.run(agent, point=CrashPoint(at, keep))
    scene.die()

    result = scene.home().result(RUN) if scene.state.finish is not None else scene.resume(agent)

    assert ("completed", [], False) == (result.operation.state, scene.bank.paid, "started" in scene.words)


@ways
def test_without_extensions_no_record_is_another(way: str) -> None:
    """Whoever has none pays nothing, and neither do their journals change."""
    with_none, plain = Watched(), Scene()
    with_none.run(buyer(way, paying(with_none, way)))
    plain.run(buyer(way, paying(plain, way)))

    assert plain.memory.raw(RUN) == with_none.memory.raw(RUN)


# Interruptions.


def test_a_call_that_is_cancelled_while_it_is_asked_about_does_not_run() -> None:
    """The receipt is left, the tool is not begun, and the agent may go on."""

    async def main() -> tuple[clew.RunResult, Watched]:
        asked, may_end = asyncio.Event(), asyncio.Event()

        async def slow(payload: Any) -> None:
            asked.set()
            await may_end.wait()

        scene = Watched(declared("guard", "before_tool", slow))
        pay = paying(scene, "async")

        @clew.agent(tools=[pay])
        async def agent(run: clew.Run, prompt: Any) -> str:
            call = asyncio.ensure_future(run.call(pay))
            await asked.wait()
            call.cancel()
            await asyncio.sleep(0)
            may_end.set()
            with suppress(asyncio.CancelledError):
                await call
            return "went on"

        return await scene.home().run(agent, run_id=RUN), scene

    result, scene = asyncio.run(main())

    assert ("completed", "went on", []) == (result.operation.state, result.output, scene.bank.paid)
    assert [("guard", "before-tool", "succeeded", False)] == scene.receipts


def test_calls_side_by_side_are_asked_about_each_on_its_own() -> None:
    """One denial is not the other's."""
    scene = Watched(declared("guard", "before_tool", lambda payload: {"b": "no"}.get(payload["arguments"]["order"])))
    pay = paying(scene, "plain")

    def agent(run: clew.SyncRun, prompt: Any) -> list[str]:
        with suppress(clew.ToolError), run.group() as group:
            for order in ("a", "b", "c"):
                group.call(pay, order=order)
        return sorted(scene.bank.orders)

    result = scene.run(clew.Agent(agent, tools=[pay]))

    assert ("completed", ["a", "c"], 3) == (result.operation.state, result.output, len(scene.receipts))


@pytest.fixture
def held() -> Iterator[threading.Event]:
    """Keeps a handler until the test is over."""
    event = threading.Event()
    yield event
    event.set()


def test_ctrl_c_while_an_end_is_told_does_not_look_like_a_broken_journal(held: threading.Event) -> None:
    """The call is durable; the run pauses, and its next leg replays what was paid."""

    def slow(payload: Any) -> None:
        _thread.interrupt_main()
        held.wait(60)

    scene = Watched(declared("watch", "after_tool", slow))
    agent = buyer("plain", paying(scene, "plain"))

    first = scene.run(agent)
    scene.extensions = ()
    second = scene.resume(agent)

    assert ("paused", "interrupted") == (first.operation.state, first.reason)
    assert ("completed", 1) == (second.operation.state, len(scene.bank.paid))


def test_ctrl_c_while_a_guard_is_asked_is_no_consent(held: threading.Event) -> None:
    """Who was interrupted has not agreed: nothing of the call is begun, and nothing recorded."""

    def slow(payload: Any) -> None:
        _thread.interrupt_main()
        held.wait(60)

    scene = Watched(declared("guard", "before_tool", slow))

    result = scene.run(buyer("plain", paying(scene, "plain")))

    assert ("paused", "interrupted", []) == (result.operation.state, result.reason, scene.bank.paid)
    assert [] == scene.said("tool_call")
