"""Children of a run that ends without anybody living them: ended where that is possible, named where not."""

from typing import Any

import clew
from clew.runtime.orphans import end_children, not_ended
from clew.stores.memory import MemoryRunStore
from tests.core.test_delegation import CHILD, at, fact

RUNNING = at("created", "running").state


def refusing(code: str) -> Any:
    def end(run_id: str) -> None:
        raise clew.Refused(f"{run_id} is not to be ended", code=code, next="Wait.")

    return end


def done(run: clew.SyncRun, prompt: Any) -> str:
    return "done"


def test_a_child_is_asked_to_end() -> None:
    """By its own id, once."""
    asked: list[str] = []

    assert ({}, [CHILD]) == (end_children(RUNNING, asked.append), asked)


def test_a_child_that_has_ended_is_no_trouble() -> None:
    """What was wanted is so already."""
    assert {} == end_children(RUNNING, refusing("run_already_finished"))


def test_a_child_that_was_never_born_is_no_trouble() -> None:
    """Its intent alone was recorded."""
    assert {} == end_children(at().state, refusing("unknown_run"))


def test_a_child_that_refuses_is_named() -> None:
    """The parent's end must not pass over it."""
    assert [CHILD] == list(end_children(RUNNING, refusing("run_state_locked")))


def test_a_joined_child_is_not_asked() -> None:
    """Its end was told long ago."""
    state = at("created", "running", "terminal", "joined").state

    assert {} == end_children(state, refusing("run_state_locked"))


def test_a_child_without_a_journal_is_not_open() -> None:
    """It was never born."""
    assert {} == not_ended(MemoryRunStore(), RUNNING)


def test_a_child_that_has_not_ended_is_named_with_what_to_do() -> None:
    """Whoever finds an abort cut off tells of what may still stand."""
    home = clew.Home.memory()

    def agent(run: clew.SyncRun, prompt: Any) -> None:
        raise ValueError("stop here")

    home.run_sync(agent, run_id=CHILD, signals=False)
    found = not_ended(home.reader.store, RUNNING)

    assert {CHILD: f"child {CHILD} is paused; end it with `clew abort {CHILD}`"} == found


def test_a_child_that_has_ended_is_not_named() -> None:
    """Nothing is left to do about it."""
    home = clew.Home.memory()
    home.run_sync(done, run_id=CHILD, signals=False)

    assert {} == not_ended(home.reader.store, RUNNING)


def test_a_child_that_cannot_be_read_is_named() -> None:
    """Nobody can say that it has ended."""
    store = MemoryRunStore()
    home = clew.Home(".clew", takeover="proven", store=store)
    home.run_sync(done, run_id=CHILD, signals=False)
    store._journals[CHILD].data[:1] = b"{}\n{"

    assert [CHILD] == list(not_ended(store, RUNNING))


def test_what_an_orphan_is_says_nothing_of_its_end() -> None:
    """The fact alone is no end."""
    state = at("created")
    state.say(fact("orphaned"))

    assert [CHILD] == list(end_children(state.state, refusing("run_state_locked")))
