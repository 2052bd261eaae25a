import errno

import pytest

from clew.cli.desk import Desk, attend
from clew.cli.screen import Options
from clew.errors import Corrupt, Held, NotFound, Refused, Storage, ToolError, UsageError


@pytest.mark.parametrize(
    ("family", "code"),
    [(UsageError, 2), (Refused, 4), (NotFound, 10), (Held, 11), (Corrupt, 12), (Storage, 13), (ToolError, 22)],
)
def test_a_command_ends_with_the_code_of_its_error(
    family: type[UsageError], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scripts branch on it (DESIGN §9)."""

    def deed(desk: Desk) -> int:
        raise family("no", code="not_now", next="Later.")

    ended = attend(Options(), deed)

    assert (code, "clew: no [not_now]\nnext: Later.\n") == (ended, capsys.readouterr().err)


def test_a_command_ends_with_what_its_deed_says() -> None:
    """A state is a result, not an error."""
    ended = attend(Options(), lambda desk: 21)

    assert 21 == ended


def test_a_deed_that_says_nothing_is_done() -> None:
    """0."""
    ended = attend(Options(), lambda desk: None)

    assert 0 == ended


def test_ctrl_c_outside_of_a_leg_is_130(capsys: pytest.CaptureFixture[str]) -> None:
    """While an agent's file is loaded, say: nothing was started."""

    def deed(desk: Desk) -> int:
        raise KeyboardInterrupt

    ended = attend(Options(), deed)

    assert (130, "interrupted\n") == (ended, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (PermissionError(errno.EACCES, "denied"), 13),
        (OSError(errno.ENOSPC, "full"), 13),
        (OSError(errno.EBADF, "oh"), 1),
    ],
)
def test_what_the_machine_refuses_is_no_fault_of_ours(fault: OSError, code: int) -> None:
    """A full disk behind stdout or a folder that may not be looked into: nobody has to report a bug."""

    def deed(desk: Desk) -> int:
        raise fault

    ended = attend(Options(), deed)

    assert code == ended


@pytest.mark.parametrize(("verbose", "shown"), [(0, False), (2, True)])
def test_a_fault_of_ours_is_1_and_shows_its_traceback_only_on_demand(
    verbose: int, shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stranger gets a sentence; a report gets everything."""

    def deed(desk: Desk) -> int:
        raise ZeroDivisionError("oh")

    ended = attend(Options(verbose=verbose), deed)

    said = capsys.readouterr().err
    assert 1 == ended
    assert "clew: this is a fault of clew itself: ZeroDivisionError: oh [internal_error]" in said
    assert shown == ('raise ZeroDivisionError("oh")' in said)
