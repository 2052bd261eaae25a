"""The ledger of a life: what is written is kept however a process ends."""

from pathlib import Path

from clew.certify.ledger import Ledger, read


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """It is the only witness of what happened in a process that was killed."""
    Ledger(tmp_path / "ledger", 2).write("happened", tool="pay", key="k", answer={"a": 1})

    entry = read(tmp_path / "ledger")[0]

    assert ("happened", 2, "pay", "k", {"a": 1}) == (entry.did, entry.leg, entry.tool, entry.key, entry.answer)


def test_a_line_that_was_cut_off_is_none(tmp_path: Path) -> None:
    """A process may be killed by others in the middle of a line."""
    Ledger(tmp_path / "ledger", 1).write("began", tool="pay")
    with (tmp_path / "ledger").open("ab") as book:
        book.write(b'{"did":"happ')

    assert ["began"] == [entry.did for entry in read(tmp_path / "ledger")]


def test_a_ledger_that_was_never_begun_is_empty(tmp_path: Path) -> None:
    """A leg may die before it does anything."""
    assert [] == read(tmp_path / "ledger")


def test_the_same_is_said_once(tmp_path: Path) -> None:
    """A loop of a thousand writes is one finding."""
    ledger = Ledger(tmp_path / "ledger", 1)
    for _ in range(3):
        ledger.say("found", "writes_outside", "it writes")

    assert 1 == len(read(tmp_path / "ledger"))
