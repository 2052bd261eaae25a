"""A run that is to be there whoever starts it."""

from typing import Any

import pytest

import clew
from clew.errors import Refused
from clew.runtime.ensuring import born_meanwhile, ended_meanwhile, existing
from tests.runtime.stage import RUN


def agent(run: clew.SyncRun, prompt: Any) -> Any:
    return prompt


@pytest.fixture
def home() -> clew.Home:
    """A home with one run that is over."""
    home = clew.Home.memory()
    home.run_sync(agent, {"day": 1}, run_id=RUN)
    return home


def refused(code: str) -> Refused:
    return Refused("no", code=code, next="Look.")


def test_a_run_that_is_not_there_is_none(home: clew.Home) -> None:
    """Then it is started."""
    assert existing(home.reader, "other", None) is None


def test_a_run_with_this_input_is_it(home: clew.Home) -> None:
    """Equal input, however its members are ordered, is the same order to do."""
    state = existing(home.reader, RUN, {"day": 1})

    assert (RUN, "completed") == (state and state.run_id, state and state.state)


def test_a_run_with_another_input_is_a_conflict(home: clew.Home) -> None:
    """Its result would be an answer to another question."""
    with pytest.raises(Refused) as caught:
        existing(home.reader, RUN, {"day": 2})

    assert "resume_input_mismatch" == caught.value.code


def test_who_came_second_to_the_end_gets_the_result(home: clew.Home) -> None:
    """That it is over is what was wanted."""
    result = ended_meanwhile(home.reader, refused("run_already_finished"), RUN)

    assert {"day": 1} == result.output


def test_who_came_second_to_the_birth_goes_on_with_the_run(home: clew.Home) -> None:
    """Two that ensure one run at once start it once."""
    state = born_meanwhile(home.reader, refused("run_id_conflict"), RUN, {"day": 1})

    assert RUN == state.run_id


@pytest.mark.parametrize("deed", [ended_meanwhile, born_meanwhile])
def test_any_other_refusal_stands(home: clew.Home, deed: Any) -> None:
    """Only the race is explained away."""
    fault = refused("foreign_run")
    given = (home.reader, fault, RUN) if deed is ended_meanwhile else (home.reader, fault, RUN, None)
    with pytest.raises(Refused) as caught:
        deed(*given)

    assert fault is caught.value


def test_an_id_that_is_taken_by_another_spelling_stays_refused(home: clew.Home) -> None:
    """The run of that very id does not exist; its case-folded twin is another's."""
    fault = refused("run_id_conflict")
    with pytest.raises(Refused) as caught:
        born_meanwhile(home.reader, fault, "ORDERS-2", {"day": 1})

    assert fault is caught.value
