"""Business keys in words."""

from typing import Any

import pytest

from clew.core.keys import Word
from clew.views.keys import WORDS, holder_lines, next_step, rebuilt_lines
from tests.views.samples import WHEN

WORDS_OF_CORE = set(Word.__args__) - {"free"}  # type: ignore[attr-defined]  # a Literal has them


def row(state: str = "committed", **changed: Any) -> dict[str, Any]:
    return {
        "tool": "pay", "businessKey": "1042", "sha256": "d" * 64, "run": "k3f", "step": "pay-1", "call": "c1",
        "key": "k3f:pay-1:c1", "attempt": 1, "state": state, "claimedAt": "2026-11-29T13:54:02.000Z", **changed,
    }  # fmt: skip


def test_a_holder_is_told_with_its_answer() -> None:
    """Who looks for an order wants the transfer."""
    lines = holder_lines(row(answer={"value": {"transfer": "T-1"}, "error": None}), WHEN)

    assert [
        "pay 1042: happened",
        "  run k3f, step pay-1, attempt 1, since 13:54:02",
        '  answer: {"transfer":"T-1"}',
        "  next: clew show k3f --effects",
    ] == lines


def test_an_error_answer_is_told_as_one() -> None:
    """A failure must not read like a result."""
    lines = holder_lines(row(answer={"value": 3, "error": {"kind": "failed", "message": "exit code 3"}}), WHEN)

    assert "  answer: error: exit code 3" == lines[2]


def test_every_state_has_its_words_and_its_next_step() -> None:
    """A state that is told by its bare name tells little."""
    assert WORDS_OF_CORE == set(WORDS)
    assert all(next_step(row(state)) for state in WORDS)


@pytest.mark.parametrize(
    ("state", "command"),
    [("open", "clew settle k3f c1"), ("starting", "clew show k3f"), ("unreadable", "clew verify k3f")],
)
def test_the_next_step_is_a_command(state: str, command: str) -> None:
    """It is copied, not read."""
    assert command in next_step(row(state))


def test_a_key_cannot_paint_the_terminal() -> None:
    """It is what an agent gave."""
    [first, *_] = holder_lines(row(businessKey="a\x1b[31m\nb"), WHEN)

    assert first.isprintable()


def test_what_a_rebuild_found_is_told_line_by_line() -> None:
    """Each of them is something to look at."""
    told = {"tool": "pay", "key": "1042", "run": "r1"}
    report = {
        "runs": 3, "held": 2, "free": 0, "complete": False, "counts": {"added": 1},
        "added": [told], "conflicts": [told | {"other": {"run": "r2"}}],
        "unreadable": [{"run": "r3", "code": "run_state_corrupt", "message": "line 2"}],
    }  # fmt: skip
    lines = rebuilt_lines(report)

    assert [
        "3 runs read: 2 keys held, 1 added to the index",
        "  added: pay 1042 of run r1",
        "  held twice: pay 1042 by r1 and r2",
        "  cannot be judged: run r3 (run_state_corrupt: line 2)",
    ] == lines[:4]
    assert "clew verify" in lines[4]
