"""Texts for a running agent: read once, at the same place in every leg, by whichever leg comes to it."""

import asyncio
from typing import Any

import pytest

import clew
from clew.stores.base import Command
from tests.runtime.scene import RUN, Scene, agent_of
from tests.runtime.stage import RUN as STAGE
from tests.runtime.stage import code_of, dies, events_of, mortal_home, state_of

WAYS = ("async", "plain")


def steer(scene: Scene, *texts: str) -> None:
    """Another process says this to a run that nobody runs."""
    for number, text in enumerate(texts, 1):
        scene.home().steer(RUN, text, by="ann", control_id=f"{text.replace(' ', '-')}-{number}")


def reader(*places: str, heard: list[Any], stop: int = 99) -> Any:
    """Reads at each place what was said; raises behind the place where it is to stop."""

    def script(run: Any) -> Any:
        for number, _ in enumerate(places, 1):
            texts = yield run.steering()
            heard.append(texts)
            yield run.step(f"think-{number}"[:5], lambda: 1)
            if number == stop:
                raise LookupError("later")
        return heard[-1]

    return script


@pytest.mark.parametrize("way", WAYS)
def test_a_text_is_read_once_at_the_place_where_it_was_read_first(way: str) -> None:
    """A replay that read it elsewhere would make the agent do something else than it did."""
    scene, first, second = Scene(), list[Any](), list[Any]()
    scene.run(agent_of(way, reader("a", heard=first, stop=1)))
    steer(scene, "skip 1043", "and be quick")
    scene.resume(agent_of(way, reader("a", "b", heard=second, stop=2)))
    third = list[Any]()
    scene.resume(agent_of(way, reader("a", "b", "c", heard=third)))

    assert ([[]], [[], ["skip 1043", "and be quick"]]) == (first, second)
    assert [[], ["skip 1043", "and be quick"], []] == third


@pytest.mark.parametrize("way", WAYS)
def test_a_reading_is_on_the_record_before_the_agent_has_it(way: str) -> None:
    """What it does next rests on it."""
    scene, heard = Scene(), list[Any]()
    scene.run(agent_of(way, reader("a", heard=[], stop=1)))
    steer(scene, "stop")
    scene.resume(agent_of(way, reader("a", "b", heard=heard)))
    (read,) = [event for event in scene.said("step_output") if "controls" in event]

    assert ("steering-2", '["stop"]', ["stop-1"]) == (read["stepId"], read["text"], read["controls"])
    assert ["accepted", "applied"] == [event["state"] for event in scene.said("control")]


@pytest.mark.parametrize("kept", [0, 300, 500, 700, 900, None])
def test_a_death_amid_a_reading_loses_and_repeats_nothing(kept: int | None) -> None:
    """Torn anywhere: either nobody has read it, or a replay reads it there and nowhere else."""
    home, store = mortal_home()
    heard: list[list[str]] = []

    def script(run: clew.SyncRun, prompt: Any) -> str:
        if not state_of(home).controls.get("c-1"):
            raise LookupError("later")
        heard.append([*run.steering(), "|", *run.steering()])
        return "done"

    agent = clew.agent(name="orders")(script)
    home.run_sync(agent, run_id=STAGE)
    home.steer(STAGE, "stop", by="ann", control_id="c-1")
    store.die_at(1, kept)
    dies(home.resume_sync, STAGE, agent)
    store.revive()
    result = home.resume_sync(STAGE, agent)

    assert ("completed", ["stop", "|"]) == (result.operation.state, heard[-1])
    assert 1 == sum("controls" in event for event in events_of(home, "step_output"))


def test_a_living_run_reads_what_was_posted() -> None:
    """Accepted at its next look, read when the agent asks; the agent's secrets are hidden in it."""
    scene, heard = Scene(), list[Any]()

    def script(run: clew.SyncRun, prompt: Any) -> Any:
        scene.memory.post(Command(1, "c-1", RUN, "steer", "ann", "-", {"text": "the word is hunter2-and-more"}))
        scene.clock.advance(1)
        heard.extend(run.steering())
        return "done"

    agent = clew.agent(name="orders", secrets=["hunter2-and-more"])(script)
    scene.run(agent)

    answer = scene.memory.answered(RUN, "c-1")
    assert (["the word is [redacted:configured]"], "accepted") == (heard, None if answer is None else answer.status)
    assert b"hunter2" not in scene.memory.raw(RUN)


def test_a_long_text_stands_beside_the_journal() -> None:
    """As every long answer does."""
    scene, heard, text = Scene(), list[Any](), "x" * 50_000
    scene.run(agent_of("plain", reader("a", heard=[], stop=1)))
    scene.home().steer(RUN, text, by="ann")
    scene.resume(agent_of("plain", reader("a", "b", heard=heard)))
    again = list[Any]()

    assert [[], [text]] == heard + again
    assert any("blob" in event for event in scene.said("step_output"))


def test_who_is_told_nothing_more_hears_that_the_run_has_ended() -> None:
    """A text that no agent will read is not kept as if one would."""
    scene = Scene()
    scene.run(agent_of("plain", reader("a", heard=[], stop=1)))
    steer(scene, "too late")
    scene.resume(agent_of("plain", reader("a", heard=[])))

    assert ["accepted", "rejected"] == [event["state"] for event in scene.said("control")]
    assert "run_already_finished" == code_of(scene.home().steer, RUN, "hello", by="ann")


def test_what_was_said_before_is_not_said_again() -> None:
    """Contract #203: under the same id it waits once, whoever sends it how often."""
    scene = Scene()
    scene.run(agent_of("plain", reader("a", heard=[], stop=1)))
    told = [scene.home().steer(RUN, "stop", by="ann", control_id="s-1") for _ in range(3)]
    other = code_of(scene.home().steer, RUN, "go", by="ann", control_id="s-1")

    assert ["accepted", "duplicate", "duplicate"] == [each["status"] for each in told]
    assert ("control_conflict", 1) == (other, len(scene.said("control")))


def test_a_text_whose_reader_is_cancelled_is_heard_by_the_next_one() -> None:
    """Its sender was told that it was read; a timeout of the agent's own must not swallow a person's word."""
    scene = Scene()

    async def agent(run: clew.Run, prompt: Any) -> list[Any]:
        scene.memory.post(Command(1, "s1", RUN, "steer", "ann", "looked", {"text": "hurry"}))
        scene.clock.advance(1)
        while run._gate.journal.state.controls.get("s1") is None:
            await asyncio.sleep(0)
        reading = asyncio.ensure_future(run.steering())
        # It looks, and waits for its record; of this it hears behind it.
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        return [reading.cancelled(), await run.steering(), await run.steering()]

    first = scene.run(clew.Agent(agent, name="agent"))

    assert [True, ["hurry"], []] == first.output
