"""Errors: they carry code, facts and next step, through pickle and as JSON."""

import json
import pickle

import pytest

from clew import errors

FAMILIES = {
    errors.UsageError: 2,
    errors.Refused: 4,
    errors.NotFound: 10,
    errors.Held: 11,
    errors.Corrupt: 12,
    errors.Storage: 13,
}


def any_error(family: type[errors.ClewError]) -> errors.ClewError:
    """An error of a family, with facts."""
    return family("run 'a' is held", code="run_state_locked", next="Wait.", run="a", pids=[1, 2])


@pytest.mark.parametrize(("family", "code"), FAMILIES.items())
def test_each_family_has_its_exit_code(family: type[errors.ClewError], code: int) -> None:
    """Scripts branch on these numbers (DESIGN §9)."""
    assert code == any_error(family).exit_code


@pytest.mark.parametrize("family", [*FAMILIES, errors.ToolError, errors.Denied, errors.ResultNotRecorded])
def test_an_error_survives_pickle(family: type[errors.ClewError]) -> None:
    """A worker process hands its error to its parent whole."""
    error = any_error(family)

    again = pickle.loads(pickle.dumps(error))

    assert (type(error), error.as_json(), str(error)) == (type(again), again.as_json(), str(again))


def test_the_json_of_an_error_is_one_line_of_json() -> None:
    """`--json` puts it on stderr, where programs read lines."""
    line = json.dumps(any_error(errors.Held).as_json(), allow_nan=False)

    assert "\n" not in line
    assert json.loads(line) == {
        "error": {
            "code": "run_state_locked",
            "message": "run 'a' is held",
            "next": "Wait.",
            "facts": {"run": "a", "pids": [1, 2]},
        }
    }


def test_an_uncompleted_run_exits_as_its_state_says() -> None:
    """`raise_for_state` in a script ends it with the run's own code."""
    error = errors.NotCompleted("run 'a' is paused", code="run_paused", next="Resume it.", exit=21)

    assert error.exit_code == 21


def test_the_stop_of_an_agent_is_no_exception_that_it_catches() -> None:
    """`except Exception` in an agent must let the stop pass."""
    assert not issubclass(errors.Stop, Exception)
