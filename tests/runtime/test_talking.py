"""A run in a session: what its agent says stands there once, whatever dies, and one run alone has it."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.invariants import SessionFacts, check
from clew.errors import Held, Refused, Stop, Storage, UsageError
from clew.runtime.home import Home
from clew.stores.memory import MemoryBlobStore, MemoryRunStore
from clew.stores.sessions.memory import MemorySessionStore
from clew.testing.clock import SetClock
from clew.testing.crash import Crash, CrashPoint, crashing

POINTS = range(1, 12)


@clew.tool(effect="none", replay="safe")
def look() -> str:
    """Looks."""
    return "seen"


def ask(request: Any) -> clew.Turn:
    return clew.Turn(f"answer to {len(request)}")


@clew.agent(tools=[look])
def chat(run: Any, prompt: str) -> str:
    run.say({"role": "user", "content": prompt})
    answer = run.turn(ask, run.conversation())
    run.say({"role": "assistant", "content": answer})
    run.call(look)
    last = run.turn(ask, run.conversation())
    run.say({"role": "assistant", "content": last})
    return str(last)


@clew.agent(tools=[look])
async def chat_async(run: Any, prompt: str) -> str:
    await run.say({"role": "user", "content": prompt})
    answer = await run.turn(ask, await run.conversation())
    await run.say({"role": "assistant", "content": answer})
    await run.call(look)
    last = await run.turn(ask, await run.conversation())
    await run.say({"role": "assistant", "content": last})
    return str(last)


class Place:
    """A home in memory that outlives its processes."""

    def __init__(self) -> None:
        self.memory, self.blobs, self.clock = MemoryRunStore(), MemoryBlobStore(), SetClock()
        self.sessions = MemorySessionStore()

    def home(self, point: CrashPoint | None = None) -> Home:
        store: Any = self.memory if point is None else crashing(self.memory, point)
        how: dict[str, Any] = {"blobs": self.blobs, "clock": self.clock, "sessions": self.sessions}
        return Home(".clew", takeover="proven", store=store, **how)

    def run(self, agent: Any, prompt: str = "hello", run_id: str = "r1", **how: Any) -> Any:
        point = how.pop("point", None)
        given = {"run_id": run_id, "session": "talk"} | how
        if agent is chat_async:
            return asyncio.run(self.home(point).run(agent, prompt, **given))
        return self.home(point).run_sync(agent, prompt, signals=False, **given)

    def resume(self, agent: Any, run_id: str = "r1") -> Any:
        if agent is chat_async:
            return asyncio.run(self.home().resume(run_id, agent))
        return self.home().resume_sync(run_id, agent, signals=False)

    def die(self) -> None:
        """What a SIGKILL leaves: the bytes, and locks that are free."""
        self.memory.forget_writers()
        for session in self.sessions._sessions.values():
            if session.lock.locked():
                session.lock.release()

    def said(self) -> list[tuple[str, Any]]:
        with self.home().session("talk", wait_s=0.0) as session:
            return [(each.role, each.content) for each in session.view().messages]

    def records(self, run_id: str = "r1") -> list[Any]:
        return [record for record, _ in self.memory.read(run_id)]


WHOLE = [("user", "hello"), ("assistant", "answer to 1"), ("assistant", "answer to 2")]


@pytest.mark.parametrize("agent", [chat, chat_async], ids=["plain", "async"])
def test_what_the_agent_says_stands_in_the_session_under_its_place(agent: Any) -> None:
    """The next run goes on with the conversation, and each message says whose it is."""
    place = Place()

    result = place.run(agent)

    with place.home().session("talk") as session:
        names = [each.entry_id for each in session.view().messages]
    assert ("completed", WHOLE) == (result.operation.state, place.said())
    assert ["r1:turn-0:0", "r1:turn-1:0", "r1:turn-2:0"] == names


@pytest.mark.parametrize("agent", [chat, chat_async], ids=["plain", "async"])
def test_the_journal_says_where_the_run_began_in_its_session(agent: Any) -> None:
    """Whoever reads the run finds the conversation, and the second reader compares the two (I-5)."""
    place = Place()
    place.run(agent)
    place.run(agent, "more", "r2")

    first, second = (place.records(name)[0].payload for name in ("r1", "r2"))

    assert [("talk", 0), ("talk", 3)] == [(each["sessionId"], each["sessionSeqStart"]) for each in (first, second)]
    assert [[], ["I-5"]] == [
        [found.label for found in check(place.records("r2"), session=SessionFacts("talk", last))] for last in (6, 2)
    ]


def test_the_next_run_hears_what_was_said_before_it() -> None:
    """That is what a session is for."""
    place = Place()
    place.run(chat)

    place.run(chat, "more", "r2")

    assert [*WHOLE, ("user", "more"), ("assistant", "answer to 4"), ("assistant", "answer to 5")] == place.said()


@pytest.mark.parametrize("agent", [chat, chat_async], ids=["plain", "async"])
@pytest.mark.parametrize("number", POINTS)
@pytest.mark.parametrize("keep", [0, 40, None], ids=["nothing", "a part", "all"])
def test_a_run_that_died_anywhere_says_nothing_twice(agent: Any, number: int, keep: int | None) -> None:
    """C01 It is resumed and says everything again; the conversation is as if nothing had happened."""
    place = Place()
    try:
        place.run(agent, point=CrashPoint(number, keep))
    except (Crash, Storage):
        place.die()
    if "r1" not in place.memory.ids():
        place.run(agent)
    elif not any(record.kind == "finish" for record in place.records()):
        place.resume(agent)

    assert WHOLE == place.said()


def test_a_resumed_leg_says_how_far_the_session_was() -> None:
    """Its `resume` record has the watermark of its own beginning."""
    place = Place()
    with pytest.raises((Crash, Storage)):
        place.run(chat, point=CrashPoint(5, 0))
    place.die()
    place.resume(chat)

    [again] = [record.payload for record in place.records() if record.kind == "resume"]

    assert ("talk", True) == (again["sessionId"], again["sessionSeqStart"] >= 1)


def test_two_runs_cannot_write_one_session_at_once() -> None:
    """The second one is told before it is born."""
    place = Place()
    refused: list[str] = []

    def rival(run: Any, prompt: str) -> None:
        try:
            place.home().session("talk", wait_s=0.0)
        except Held as fault:
            refused.append(fault.code)

    place.run(rival)

    assert ["session_open_locked"] == refused


def test_a_run_that_finds_its_session_held_is_not_born() -> None:
    """It would be a run without what it needs, for ever in the list."""
    place = Place()
    writer = place.sessions.create("talk", b'{"kind":"header","version":4,"id":"talk","createdAt":1,"cwd":"/"}\n')

    with pytest.raises(Held, match="session 'talk' is being written"):
        place.run(chat)

    writer.close()
    assert [] == place.memory.ids()


def test_the_session_is_free_when_the_leg_has_ended() -> None:
    """Another run may have it while this one waits for a person, also where it never began."""
    place = Place()
    with pytest.raises(Refused):
        place.run(chat, run_id="r1") and place.run(chat, run_id="r1")

    place.run(chat, "more", "r2")

    assert 6 == len(place.said())


def test_what_another_run_said_meanwhile_is_not_heard_on_the_replay() -> None:
    """A replay asks the same questions as before, or its recorded turns would not be found again."""
    place, heard = Place(), []

    @clew.agent(tools=[look])
    def pausing(run: Any, prompt: str) -> None:
        run.say({"role": "user", "content": prompt})
        heard.append(len(run.conversation()))
        run.turn(ask, run.conversation())
        if len(heard) == 1:
            run.pause("wait_for_it")
        run.say({"role": "assistant", "content": "done"})
        heard.append(len(run.conversation()))

    place.run(pausing)
    place.run(chat, "between", "r2")
    place.resume(pausing)

    assert [1, 1, 5] == heard


def test_a_session_that_is_gone_is_not_begun_anew_by_a_resume() -> None:
    """#188 The agent would go on as if nothing had been said."""
    place = Place()
    pausing = clew.agent(tools=[look])(_pausing)
    place.run(pausing)
    place.sessions.implant("talk", None)
    before = place.memory.raw("r1")

    with pytest.raises(Refused) as caught:
        place.resume(pausing)

    assert ("session_restore_failed", before, []) == (caught.value.code, place.memory.raw("r1"), place.sessions.ids())


def test_a_session_that_lost_what_was_there_at_the_start_is_refused() -> None:
    """#188 A copy from before is another conversation."""
    place = Place()
    place.run(chat)
    pausing = clew.agent(tools=[look])(_pausing)
    place.run(pausing, run_id="r2")
    header = place.sessions.raw("talk").splitlines(keepends=True)[0]
    place.sessions.implant("talk", header)

    with pytest.raises(Refused, match="it has 0 lines"):
        place.resume(pausing, "r2")


HEADER = b'{"kind":"header","version":4,"id":"talk","createdAt":%d,"cwd":"/"}\n'
LINE = (
    b'{"kind":"entry","lane":"main","type":"message","id":"x%d","message":{"role":"user","content":"theirs"},'
    b'"parentId":%b,"seq":%d,"timestamp":1}\n'
)


def _theirs(created_ms: int, count: int = 50) -> bytes:
    """A conversation of somebody else, longer than ours."""
    parents = [b"null", *(b'"x%d"' % number for number in range(1, count))]
    lines = [LINE % (number, parent, number) for number, parent in enumerate(parents, 1)]
    return HEADER % created_ms + b"".join(lines)


@pytest.mark.parametrize(
    ("again", "match"),
    [(False, "another one of its name"), (True, "'r1:turn-2:0' that the run began behind is not in")],
)
def test_another_session_of_the_same_name_gets_nothing_of_the_run(again: bool, match: str) -> None:
    """#188 What the agent says would stand in the conversation of somebody else."""
    place = Place()
    place.run(chat)
    pausing = clew.agent(tools=[look])(_pausing)
    place.run(pausing, run_id="r2")
    theirs = _theirs(place.records("r2")[0].payload["sessionCreatedMs"] + (not again))
    place.sessions.implant("talk", theirs)

    with pytest.raises(Refused, match=match) as caught:
        place.resume(pausing, "r2")

    assert ("session_restore_failed", theirs) == (caught.value.code, place.sessions.raw("talk"))


def test_a_session_that_lost_what_was_there_at_a_later_leg_is_refused() -> None:
    """#188 A copy from between two legs lacks what the second one stood on."""
    place = Place()

    def twice(run: Any, prompt: str) -> None:
        run.say({"role": "user", "content": "one"})
        run.pause("once more")

    place.run(twice)
    kept = place.sessions.raw("talk")
    with place.home().session("talk") as session:
        session.append({"role": "user", "content": "between"})
    place.resume(twice)
    place.sessions.implant("talk", kept)

    with pytest.raises(Refused, match="it has 1 lines, and a leg of the run began behind 2"):
        place.resume(twice)


@pytest.mark.parametrize("agent", [chat, chat_async], ids=["plain", "async"])
def test_a_session_that_cannot_be_written_pauses_the_run(agent: Any) -> None:
    """The journal is sound and says why; once the session can be written again the run goes on, and says it once."""
    place = Place()
    place.home().session("talk").close()

    with place.sessions.failing("write"):
        paused = place.run(agent)
    again = place.resume(agent)

    assert ("paused", "session_failed", 22) == (paused.operation.state, paused.reason, paused.exit_code)
    assert ("completed", WHOLE) == (again.operation.state, place.said())


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_something_else_in_the_same_place_is_an_error_of_the_agent(is_async: bool) -> None:
    """Nothing is replaced, and the run waits until the agent is mended: its journal has not failed."""
    place, words = Place(), ["one", "another"]

    def said() -> dict[str, Any]:
        return {"role": "user", "content": words.pop(0)}

    def plain(run: Any, prompt: str) -> None:
        run.say(said())
        run.pause("once more")

    async def on_loop(run: Any, prompt: str) -> None:
        await run.say(said())
        await run.pause("once more")

    agent: Any = on_loop if is_async else plain
    if is_async:
        asyncio.run(place.home().run(agent, "hello", run_id="r1", session="talk"))
        again = asyncio.run(place.home().resume("r1", agent))
    else:
        place.run(agent)
        again = place.resume(agent)

    assert ("paused", "agent_error", "session_entry_conflict") == (
        again.operation.state, again.reason, getattr(again.fault, "code", None),
    )  # fmt: skip
    assert [("user", "one")] == place.said()


def _pausing(run: Any, prompt: str) -> None:
    run.say({"role": "user", "content": prompt})
    run.pause("wait_for_it")


def test_who_has_no_session_is_told_how_to_get_one() -> None:
    """Nothing is said into the void."""
    caught: list[Any] = []

    def lonely(run: Any, prompt: str) -> None:
        for deed in (lambda: run.say({"role": "user", "content": "x"}), run.conversation):
            try:
                deed()
            except UsageError as fault:
                caught.append(fault.code)

    Place().run(lonely, session=None)

    assert ["run_without_session"] * 2 == caught


def test_a_home_without_sessions_says_so() -> None:
    """A store of somebody else's may have none."""
    with pytest.raises(UsageError) as caught:
        Home(".clew", store=MemoryRunStore(), blobs=MemoryBlobStore()).run_sync(
            chat, "x", session="talk", signals=False
        )

    assert "no_sessions" == caught.value.code


def test_after_the_gate_has_closed_nothing_more_is_said() -> None:
    """An agent that swallows its stop must not go on talking."""
    place, met = Place(), []

    def stubborn(run: Any, prompt: str) -> None:
        with suppress(Stop):
            run.pause("enough")
        try:
            run.say({"role": "user", "content": "still here"})
        except Stop as stop:
            met.append(stop)
            raise

    place.run(stubborn)

    assert (1, []) == (len(met), place.said())


def test_a_secret_is_hidden_before_it_is_kept() -> None:
    """A conversation lies in a file as a journal does."""
    place = Place()

    @clew.agent(secrets=["hunter2"])
    def careless(run: Any, prompt: str) -> None:
        run.say({"role": "user", "content": "the password is hunter2"})

    place.run(careless)

    assert b"hunter2" not in place.sessions.raw("talk")


def test_a_run_that_is_ensured_goes_on_in_its_session() -> None:
    """The session is said once, and a second call finds it in the run."""
    place = Place()

    results = [place.home().ensure_sync(chat, "hello", run_id="r1", session="talk", signals=False) for _ in range(2)]

    assert (["completed"] * 2, WHOLE) == ([each.operation.state for each in results], place.said())


def test_a_run_that_is_ensured_in_another_session_is_refused() -> None:
    """It would be told a conversation that is not the one it asked for."""
    place = Place()
    place.home().ensure_sync(chat, "hello", run_id="r1", session="talk", signals=False)

    with pytest.raises(Refused, match="in session 'talk', not in 'other'") as caught:
        place.home().ensure_sync(chat, "hello", run_id="r1", session="other", signals=False)

    assert ("resume_input_mismatch", ["talk"]) == (caught.value.code, place.sessions.ids())


def test_the_file_of_a_session_is_what_the_home_shows(tmp_path: Path) -> None:
    """#180 It lies under its public path from the first moment of the run."""
    seen: list[bool] = []

    def looking(run: Any, prompt: str) -> None:
        seen.append((tmp_path / ".clew" / "sessions" / "talk.jsonl").exists())

    Home(tmp_path / ".clew").run_sync(looking, "x", session="talk", signals=False)

    assert [True] == seen
