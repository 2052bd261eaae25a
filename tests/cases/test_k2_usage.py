"""Kind K2: tokens, cost or limits that were wrong. What is counted once, what is never zero, what survives a resume."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.cases.ward import Typed, case
from tests.runtime.scene import WAYS, Scene, agent_of

ways = pytest.mark.parametrize("way", WAYS)
REAL = "claude-code-real-orphan-tools-repeated-usage.jsonl"


def messages(transcript: bytes) -> list[tuple[str, clew.Usage, str]]:
    """Each record of a transcript that reports usage: its message id, the usage, the record itself."""
    found = []
    for line in transcript.decode().splitlines():
        message = json.loads(line).get("message")
        if isinstance(message, dict) and "usage" in message:
            said = message["usage"]
            usage = clew.Usage.from_anthropic(
                input_tokens=said["input_tokens"],
                output_tokens=said["output_tokens"],
                cache_read_input_tokens=said["cache_read_input_tokens"],
                cache_creation_input_tokens=said["cache_creation_input_tokens"],
            )
            found.append((message["id"], usage, line))
    return found


def metrics_of(turns: list[clew.Turn], way: str = "plain", **how: Any) -> dict[str, Any]:
    """What a run comes to whose models answer like this."""
    scene = Scene()

    def script(run: Any) -> Any:
        for number, turn in enumerate(turns):
            yield run.turn(lambda request, turn=turn: turn, number)

    return dict(scene.run(agent_of(way, script), **how).snapshot["metrics"])


def test_a_transcript_that_repeats_its_calls_costs_what_they_cost_once() -> None:
    """C12: a real one; added record by record its output would be 54 tokens, and it is 10."""
    told = messages(case(REAL))
    count = clew.UsageCount()
    for name, usage, _ in told:
        count.add(usage, message_id=name)

    assert (54, 10) == (sum(usage.output_tokens or 0 for _, usage, _ in told), count.usage.output_tokens)
    assert len(told) - count.messages == count.repeats > 0


@ways
def test_a_run_counts_each_message_once(way: str) -> None:
    """C12: the same reports as turns of a run: the last of a message wins, and the repeats are told."""
    told = messages(case(REAL))
    ids = {name for name, _, _ in told}

    found = metrics_of([clew.Turn("x", usage, message_id=name) for name, usage, _ in told], way)

    assert (10, len(told), len(told) - len(ids), 0) == (
        found["context"]["outputTokens"], found["turns"], found["repeatedMessages"], found["unmeasuredTurns"],
    )  # fmt: skip


@ways
def test_a_message_in_two_records_is_one(way: str) -> None:
    """C13: its text and its tool part carry the same usage."""
    usage = clew.Usage(input_tokens=3, output_tokens=2, cost_micro_usd=7)

    found = metrics_of([clew.Turn("text", usage, message_id="m1"), clew.Turn("tool", usage, message_id="m1")], way)

    assert (5, 0.000007, 1) == (found["tokens"], found["costUsd"], found["repeatedMessages"])


def test_a_cached_part_is_not_added_to_the_prompt_that_contains_it() -> None:
    """C14: prompt 1000, of which 900 cached, is 1000."""
    usage = clew.Usage.from_openai(prompt_tokens=1000, cached_tokens=900, completion_tokens=5)
    found = metrics_of([clew.Turn("x", usage)])

    assert (100, 900, 1005, 1000) == (
        found["context"]["inputTokens"], found["context"]["cacheReadTokens"], found["tokens"],
        found["lastPromptTokens"],
    )  # fmt: skip


def test_what_a_stream_says_at_its_end_is_set_and_not_added() -> None:
    """C15: start {cache 500}, end {cache 500, output 20}."""
    start = clew.Usage(cache_read_tokens=500)
    found = metrics_of([clew.Turn("x", start.then(clew.Usage(cache_read_tokens=500, output_tokens=20)))])

    assert (500, 20, 520) == (found["context"]["cacheReadTokens"], found["context"]["outputTokens"], found["tokens"])


def aborted_in_mid_stream(scene: Scene) -> clew.RunResult:
    """One turn that was measured, and one that was called off while it streamed."""
    streaming = asyncio.Event()

    async def stream(request: Any) -> None:
        streaming.set()
        await asyncio.Event().wait()

    @clew.agent
    async def agent(run: clew.Run, prompt: str) -> None:
        await run.turn(lambda request: clew.Turn("x", clew.Usage(tokens=12_300, cost_micro_usd=5)), "a")
        asked = asyncio.ensure_future(run.turn(stream, "b"))
        await streaming.wait()
        asked.cancel()
        await asyncio.wait([asked])

    return scene.run(agent)


def test_a_turn_that_was_called_off_is_not_measured() -> None:
    """C16: unknown is not zero; what is known is what was used at least."""
    found = aborted_in_mid_stream(Scene()).snapshot["metrics"]

    assert (12_300, 1, 2, 2) == (found["tokens"], found["unmeasuredTurns"], found["turns"], found["requests"])


@ways
def test_a_turn_that_died_is_not_measured_even_before_it_is_asked_again(way: str) -> None:
    """C16: the run was aborted while a model was asked; its account says that something is missing."""
    scene = Scene()

    class Death(BaseException):
        pass

    def dies(request: Any) -> None:
        raise Death

    def script(run: Any) -> Any:
        yield run.turn(lambda request: clew.Turn("x", clew.Usage(tokens=5)), "a")
        yield run.turn(dies, "b")

    found = scene.run(agent_of(way, script)).snapshot["metrics"]

    assert (5, 1, 1) == (found["tokens"], found["unmeasuredTurns"], found["unmeasuredTokens"])


SILENT = """
import clew
@clew.agent
def settle(run, prompt):
    for number in range(3):
        run.turn(lambda request: clew.Turn("yes", {usage}), number)
    return "done"
"""


@pytest.mark.parametrize(
    ("usage", "said"),
    [
        ("None", "3 turns, tokens not reported"),
        ("clew.Usage(tokens=4100) if number < 2 else None", "at least 8,200 tokens (1 of 3 turns unmeasured)"),
        ("clew.Usage(tokens=4100, cost_micro_usd=40000)", "12,300 tokens, $0.12"),
        (
            "clew.Usage(tokens=4100, cost_micro_usd=40000 if number else None)",
            "12,300 tokens, at least $0.08 (1 of 3 turns unmeasured)",
        ),
    ],
)
def test_a_total_that_lacks_something_says_so_where_people_look(
    tmp_path: Path, typed: Typed, usage: str, said: str
) -> None:
    """C16, C17, promise 9: never a bare total when something is not measured, and never 0 for what nobody reported."""
    (tmp_path / "agent.py").write_text(SILENT.format(usage=usage), "utf-8")
    assert 0 == typed("run", "agent.py:settle").code

    assert said in typed("show", "@last").out


@ways
def test_a_provider_that_reports_nothing_is_not_free(way: str) -> None:
    """C17: with a limit of 100 tokens the run pauses and says why; on a person's word it goes on."""
    scene = Scene()

    def script(run: Any) -> Any:
        for number in range(3):
            yield run.turn(lambda request: "yes", number)

    agent = agent_of(way, script)
    first = scene.run(agent, budget=clew.RunBudget(max_tokens=100))
    metrics = first.snapshot["metrics"]
    last = scene.resume(agent, budget=clew.RunBudget(max_tokens=100, on_unmeasured="continue"))

    assert ("paused", "budget_not_enforceable", 5) == (first.operation.state, first.reason, first.exit_code)
    assert (None, None, 1) == tuple(metrics[name] for name in ("tokens", "costUsd", "requests"))
    assert "completed" == last.operation.state


@ways
def test_a_raised_limit_forgets_nothing_that_was_spent(way: str) -> None:
    """C18: spend 5, resume with limit 10, spent is still 5."""
    scene, spent = Scene(), list[Any]()

    def script(run: Any) -> Any:
        for number in range(3):
            yield run.turn(lambda request: clew.Turn("yes", clew.Usage(cost_micro_usd=5_000_000)), number)

    agent = agent_of(way, script)
    for limit in (5, 10, 15):
        go = scene.resume if spent else scene.run
        result = go(agent, budget=clew.RunBudget(max_cost_usd=limit))
        spent.append((result.reason, result.snapshot["metrics"]["costUsd"]))

    assert [("budget_exceeded", 5.0), ("budget_exceeded", 10.0), (None, 15.0)] == spent


def test_the_size_of_a_context_is_not_what_was_used() -> None:
    """C20: three requests with the same growing conversation."""
    prompts = [100, 200, 300]

    found = metrics_of([clew.Turn("x", clew.Usage(input_tokens=prompt, output_tokens=0)) for prompt in prompts])

    assert (600, 300, 3) == (found["tokens"], found["lastPromptTokens"], found["requests"])


def test_a_record_that_was_written_twice_is_one() -> None:
    """C21: a transcript with a whole record repeated, byte for byte; with or without the id of its message."""
    told = messages(case(REAL))
    told.append(told[0])
    by_id, by_record, once = clew.UsageCount(), clew.UsageCount(), clew.UsageCount()
    for name, usage, line in told:
        by_id.add(usage, message_id=name)
        by_record.add(usage, record=line)
    for _, usage, line in told[:-1]:
        once.add(usage, record=line)

    assert 10 == by_id.usage.output_tokens
    assert (once.usage, 1) == (by_record.usage, by_record.repeats)
