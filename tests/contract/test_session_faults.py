"""A run that talks in a session is struck at each of its file operations, in a real process: nothing is said twice."""

from pathlib import Path
from typing import Any

import pytest

import clew
from tests.contract.struck import Strike, calls_of, every, needs_strace, strikes, struck

pytestmark = needs_strace

RUN = "r1"


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
    run.say({"role": "user", "content": "bye"})
    return str(answer)


WHOLE = ["before", "hello", "answer to 2", "bye"]


class Town:
    """A home with one session in which something was said, made anew for each strike."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.path = root / ".clew"
        with self.home().session("talk") as session:
            session.append({"role": "user", "content": "before"})

    def home(self) -> clew.Home:
        return clew.Home(self.path, takeover="proven")

    def talk(self) -> None:
        """What the process does that is struck; a pause is its end as well."""
        self.home().run_sync(chat, "hello", run_id=RUN, session="talk", signals=False)

    def go_on(self) -> str:
        """Another process sees it to its end; the state of the run."""
        home = self.home()
        if RUN not in home.reader.store.ids():
            self.talk()
        elif home.result(RUN).operation.state not in ("completed", "failed"):
            home.resume_sync(RUN, chat, signals=False)
        return home.result(RUN).operation.state

    def said(self) -> list[Any]:
        return [each.content for each in self.home().examine_session("talk").view().messages]


def suffer(root: Path, strike: Strike) -> str:
    """One strike, and what is wrong with what it leaves; empty when nothing is."""
    town = Town(root)
    struck(town.talk, strike)
    left = town.said()
    if left != WHOLE[: len(left)]:
        return f"{strike}: it left {left}"
    state = town.go_on()
    if (state, town.said()) != ("completed", WHOLE):
        return f"{strike}: the run is {state} and has said {town.said()}"
    found = town.home().verify(RUN, deep=True)
    if found["findingCount"] or found["session"]["error"]:
        return f"{strike}: {found['findings']} {found['session']['error']}"
    return ""


def sweep(root: Path, step: int) -> tuple[int, list[str]]:
    found = strikes(Town(root / "count").talk)
    chosen = found if step == 1 else [*every(found, step)]
    wrong = [suffer(root / str(number), strike) for number, strike in enumerate(chosen)]
    return len(chosen), [each for each in wrong if each]


def test_what_is_said_is_on_the_device_before_the_model_is_asked(tmp_path: Path) -> None:
    """C38: each message is one write and one sync, and the run's own appends are theirs."""
    town = Town(tmp_path)

    calls = calls_of(town.talk, ("write", "fsync", "fdatasync"))

    assert calls.count("fdatasync") + calls.count("fsync") >= 3


def test_a_run_that_is_struck_while_it_talks_says_all_of_it_once(tmp_path: Path) -> None:
    """C01 Killed in an append of its own, out of space, refused: the conversation goes on as if nothing had been."""
    count, wrong = sweep(tmp_path, 37)

    assert ([], True) == (wrong, count >= 8)


@pytest.mark.crash
def test_a_run_that_is_struck_anywhere_says_all_of_it_once(tmp_path: Path) -> None:
    """C01 The same at each of them."""
    count, wrong = sweep(tmp_path, 1)

    assert ([], True) == (wrong, count >= 100)
