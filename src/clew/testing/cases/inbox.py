"""Commands from other processes: kept in order, taken once, answered where their sender looks."""

from functools import partial
from typing import Final

from clew.errors import Refused, UsageError
from clew.stores.base import Command, CommandAnswer
from clew.testing.kit import case, cases_of, expect, refused
from clew.testing.storelab import RUN, RunStoreLab, born


def _command(control_id: str, reason: str = "lunch") -> Command:
    return Command(1, control_id, RUN, "pause", "ann", reason, {"text": "ä", "n": [1, None]})


@case()
def commands_wait_by_id_until_they_are_answered(lab: RunStoreLab) -> None:
    """The order is the same for every reader, and an answered command is not carried out again."""
    born(lab)[0].close()
    for control_id in ("c2", "c1", "c3"):
        lab.store().post(_command(control_id))

    lab.store().answer(RUN, CommandAnswer("c1", "applied"))

    expect([_command("c2"), _command("c3")], [*lab.store().pending(RUN)], "commands that wait")


@case()
def a_command_is_posted_beside_a_living_writer(lab: RunStoreLab) -> None:
    """It is there for the writer to find; the sender waits for no lock."""
    writer, hand = born(lab)

    lab.store().post(_command("c1"))

    expect([_command("c1")], [*lab.store().pending(RUN)], "commands that wait")
    writer.append(hand.batch({"n": 1}))
    writer.close()


@case()
def the_same_command_twice_is_one(lab: RunStoreLab) -> None:
    """A sender that did not hear back sends again, also after it was answered."""
    born(lab)[0].close()

    lab.store().post(_command("c1"))
    lab.store().post(_command("c1"))

    expect([_command("c1")], [*lab.store().pending(RUN)], "commands that wait")
    lab.store().answer(RUN, CommandAnswer("c1", "applied"))
    lab.store().post(_command("c1"))
    expect([], [*lab.store().pending(RUN)], "commands that wait after the answer")


@case()
def another_command_under_the_same_id_is_refused(lab: RunStoreLab) -> None:
    """Otherwise the first sender would take the answer of the second for its own."""
    born(lab)[0].close()
    lab.store().post(_command("c1"))

    refused(Refused, "control_conflict", lambda: lab.store().post(_command("c1", "dinner")), "the id is used")

    expect([_command("c1")], [*lab.store().pending(RUN)], "commands that wait")


@case()
def an_answer_is_found_by_its_sender(lab: RunStoreLab) -> None:
    """First accepted, later applied; before that, nothing."""
    born(lab)[0].close()
    lab.store().post(_command("c1"))
    said = [lab.store().answered(RUN, "c1")]
    for answer in (CommandAnswer("c1", "accepted"), CommandAnswer("c1", "applied", "paused at record 9")):
        lab.store().answer(RUN, answer)

        said.append(lab.store().answered(RUN, "c1"))

    expected = [None, CommandAnswer("c1", "accepted"), CommandAnswer("c1", "applied", "paused at record 9")]
    expect(expected, said, "answers that the sender finds")


@case()
def a_command_id_that_no_file_may_have_is_refused(lab: RunStoreLab) -> None:
    """It comes from outside and becomes a name on disk."""
    born(lab)[0].close()

    for control_id in ("../c1", "", "con", "a" * 129):
        post = partial(lab.store().post, _command(control_id))
        refused(UsageError, "invalid_control_id", post, f"the id is {control_id!r}")

    expect([], [*lab.store().pending(RUN)], "commands that wait")


CASES: Final = cases_of(globals())
