"""What session stores say when they refuse names the session, the place and the next step."""

import pytest

from clew.errors import ClewError, Refused
from clew.stores.sessions import refusals

OWNER = {"pid": 7, "host": "vm", "startTick": 1, "state": "stopped"}


@pytest.mark.parametrize(
    "error",
    [
        refusals.unknown_session("talk", "/home"),
        refusals.session_taken("talk", "Talk"),
        refusals.held("talk", OWNER),
        refusals.held("talk", {}),
        refusals.replaced("talk", "it is gone"),
        refusals.poisoned("talk"),
        refusals.backup_differs("talk", "talk.jsonl.v3.backup"),
    ],
    ids=lambda error: error.code,
)
def test_each_names_the_session_and_a_next_step(error: ClewError) -> None:
    """A refusal without a way out is a dead end."""
    assert "talk" in error.message
    assert ("talk", True) == (error.facts["session"], error.next.endswith("."))


def test_the_holder_is_named_only_when_it_is_known() -> None:
    """A process number that was made up would be the wrong one to end."""
    known, unknown = refusals.held("talk", OWNER), refusals.held("talk", {})

    assert ("process 7 on vm (stopped)" in known.message, OWNER) == (True, known.facts["owner"])
    assert ("another process" in unknown.message, None) == (True, unknown.facts["owner"])


def test_an_id_that_differs_by_case_alone_is_taken() -> None:
    """Where case is ignored it is the same file."""
    refusals.require_free("talk", ["other"])

    with pytest.raises(Refused, match="there is a session 'Talk' already"):
        refusals.require_free("talk", ["other", "Talk"])
