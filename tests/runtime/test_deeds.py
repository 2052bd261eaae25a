"""The table of commands: what each asks for, and what is no command."""

from typing import Any

import pytest

from clew.errors import UsageError
from clew.runtime.deeds import DEEDS, check_command
from clew.stores.base import Command

RIGHT: dict[str, dict[str, Any]] = {
    "pause": {},
    "abort": {},
    "settle": {"call": "pay-1", "attempt": 1, "outcome": "did_not_happen", "evidence": []},
    "steer": {"text": "stop at noon"},
}


@pytest.mark.parametrize("kind", RIGHT)
def test_a_command_with_its_arguments_is_understood(kind: str) -> None:
    """The table has a line for each that a person can give."""
    assert DEEDS[kind] is check_command(Command(1, "c-1", "r1", kind, "ann", "enough", RIGHT[kind]))


@pytest.mark.parametrize("kind", RIGHT)
@pytest.mark.parametrize("changes", [{"by": " "}, {"reason": ""}], ids=["nobody", "no reason"])
def test_a_command_says_who_and_why(kind: str, changes: dict[str, str]) -> None:
    """Contract #207: of one that does not, nothing is recorded."""
    said = {"by": "ann", "reason": "enough", **changes}

    with pytest.raises(UsageError) as caught:
        check_command(Command(1, "c-1", "r1", kind, arguments=RIGHT[kind], **said))

    assert "control_invalid" == caught.value.code


def test_only_what_the_agent_comes_for_waits() -> None:
    """All else is done when it is taken."""
    assert ["steer"] == [kind for kind, deed in DEEDS.items() if deed.waits]
