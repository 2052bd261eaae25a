"""The words of a refusal: who, where, and what to do."""

import pickle

import pytest

from clew.errors import Refused
from clew.stores.refusals import empty_run, held, require_free, unknown_run


@pytest.mark.parametrize(
    ("state", "advice"),
    [("alive", "Wait for that process"), ("stopped", "Let that process go on (`kill -CONT 812`) or end it;")],
)
def test_a_held_run_says_who_and_what_to_do(state: str, advice: str) -> None:
    """A stopped process is not waited for: somebody has to continue it."""
    error = held("r1", {"pid": 812, "host": "vm"}, "13:54", state)

    assert str(error) == f"run 'r1' is being written by process 812 on 'vm' ({state}), since 13:54"
    assert error.next.startswith(advice)


def test_a_held_run_without_a_leg_is_still_held() -> None:
    """A foreign writer, or a journal that cannot be read."""
    error = held("r1", None, "", "elsewhere")

    assert str(error) == "run 'r1' is being written by another process"


def test_an_empty_file_is_said_to_be_empty() -> None:
    """C35: "there is no such run" beside a file of that name sends people in a circle."""
    error = empty_run("r1", "runs/r1.jsonl")

    assert ("unknown_run", "there is no run 'r1': 'runs/r1.jsonl' is empty") == (error.code, error.message)


def test_an_id_that_differs_by_case_names_the_one_that_is_there() -> None:
    """The user sees which run is meant."""
    with pytest.raises(Refused) as caught:
        require_free("Orders-1", ["x", "orders-1"])

    assert caught.value.facts == {"run": "Orders-1", "existing": "orders-1"}


def test_a_refusal_survives_another_process() -> None:
    """Errors cross from workers by pickle."""
    error = pickle.loads(pickle.dumps(unknown_run("r1", "runs")))

    assert (error.code, error.facts) == ("unknown_run", {"run": "r1"})
