"""What tools and models answer whose bodies are not run: from a file, from a recorded run, and which one counts."""

from pathlib import Path

import pytest

import clew
from clew.certify.answers import Answers, Unanswered, document, load, of_run, read_file, save
from clew.errors import UsageError


def written(folder: Path, text: str) -> Path:
    path = folder / "answers.json"
    path.write_text(text, "utf-8")
    return path


def test_an_answer_is_for_its_arguments(tmp_path: Path) -> None:
    """Each payment has a reference of its own."""
    text = '{"pay": [{"answer": 0}, {"arguments": {"order": "7"}, "answer": 7}]}'

    answers = read_file(written(tmp_path, text))

    assert (7, 0) == (
        answers.of_call("pay", "pay-1", {"order": "7"}).answer,
        answers.of_call("pay", "pay-2", {"order": "8"}).answer,
    )


def test_turns_are_answered_one_after_the_other(tmp_path: Path) -> None:
    """A model's requests are long; their order says enough."""
    answers = read_file(written(tmp_path, '{"turns": [{"answer": "a"}, {"answer": "b"}]}'))

    assert ["b", "a"] == [answers.of_turn(turn, "?").answer for turn in ("turn-2", "turn-1")]


def test_an_error_is_an_answer(tmp_path: Path) -> None:
    """What an agent does when it is refused is worth trying."""
    answers = read_file(written(tmp_path, '{"pay": [{"error": "no money"}]}'))

    assert "no money" == answers.of_call("pay", "pay-1", {}).error


def test_who_is_not_known_is_not_answered_for() -> None:
    """An invented answer would try an agent in a world that is not."""
    with pytest.raises(Unanswered):
        Answers().of_call("pay", "pay-1", {})


@pytest.mark.parametrize(
    "text",
    ["[]", "{", '{"pay": {}}', '{"pay": [{}]}', '{"pay": [{"answer": 1, "argument": {}}]}', '{"pay": [{"error": 1}]}'],
)
def test_a_file_of_another_shape_is_refused(tmp_path: Path, text: str) -> None:
    """A misspelt member would be passed over, and another answer given."""
    with pytest.raises(UsageError) as error:
        read_file(written(tmp_path, text))

    assert "invalid_answers" == error.value.code


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """It says which file was meant."""
    with pytest.raises(UsageError) as error:
        read_file(tmp_path / "none.json")

    assert str(tmp_path / "none.json") == error.value.facts["path"]


@clew.tool(effect="external")
def pay(order: str) -> dict[str, str]:
    return {"paid": order}


@clew.tool(effect="none")
def look(order: str) -> str:
    return "as it is there"


@clew.tool(effect="external")
def refuse(order: str) -> clew.Failed:
    return clew.Failed("never", order)


def part(run: clew.SyncRun, prompt: str) -> str:
    return str(run.call(pay, order="child")["paid"])


@clew.agent(tools=[pay, refuse, look], secrets=["hidden"])
def agent(run: clew.SyncRun, prompt: str) -> str:
    run.call(look, order="a")
    run.turn(lambda request: clew.Turn("go on"), "may I?")
    for order in ("a", "b", "hidden"):
        run.call(pay, order=order)
    try:
        run.call(refuse, order="c")
    except clew.ToolError:
        run.child(part)
    return "done"


@pytest.fixture
def recorded() -> Answers:
    home = clew.Home.memory()
    return of_run(home, home.run_sync(agent, "go").run_id)


def test_a_recorded_run_answers_again(recorded: Answers) -> None:
    """Whoever has run the agent once need not write down what it was told, nor what its children were."""
    told = [recorded.of_call("pay", "x", {"order": order}).answer for order in ("a", "b", "child")]

    assert [{"paid": "a"}, {"paid": "b"}, {"paid": "child"}] == told
    assert ("never", "go on") == (
        recorded.of_call("refuse", "x", {"order": "c"}).error,
        recorded.of_turn("turn-1", "may I?").answer,
    )


def test_what_was_seen_in_a_recorded_run_is_seen_anew(recorded: Answers) -> None:
    """A tool that reads the workspace must read the one of this life, in which a write may have failed."""
    with pytest.raises(Unanswered):
        recorded.of_call("look", "look-1", {"order": "a"})


def test_other_arguments_of_a_recorded_step_are_answered(recorded: Answers) -> None:
    """A time in the arguments is found by the trial, and must not end it."""
    assert {"paid": "b"} == recorded.of_call("pay", "pay-2", {"order": "b", "at": "now"}).answer


def test_a_recorded_run_becomes_a_file(tmp_path: Path, recorded: Answers) -> None:
    """What was answered live is kept, so that nobody need run it live again; a redacted argument is not one."""
    (tmp_path / "kept.json").write_bytes(document(recorded))

    again = read_file(tmp_path / "kept.json")

    assert b"hidden" not in (tmp_path / "kept.json").read_bytes()
    assert ({"paid": "a"}, "never", "go on") == (
        again.of_call("pay", "pay-1", {"order": "a"}).answer,
        again.of_call("refuse", "refuse-1", {"order": "c"}).error,
        again.of_turn("turn-1", "may I?").answer,
    )


def test_answers_reach_each_leg_as_they_are(tmp_path: Path, recorded: Answers) -> None:
    """Each leg is a process of its own and reads them anew."""
    save(recorded, tmp_path / "answers")

    assert recorded.told == load(str(tmp_path / "answers")).told


def test_without_answers_nothing_is_known() -> None:
    """An agent without external tools needs none."""
    assert () == load("").told
