"""The published head: a lower bound below which nothing may ever be missing. How it is kept is not here."""

from functools import partial
from typing import Final

from clew.core.records import Head
from clew.errors import Corrupt
from clew.stores.base import RunWriter
from clew.testing.kit import case, cases_of, expect, refused, stopped
from clew.testing.storelab import RUN, Hand, RunStoreLab, born, go_on, read_all, told


def _three_with_head(lab: RunStoreLab) -> tuple[list[bytes], Hand]:
    """Three records in three appends, the last one named by the head; nobody writes any more."""
    writer, hand = born(lab)
    writer.append(hand.batch({"n": 2}))
    writer.append(hand.batch({"n": 3}))
    writer.publish_head(hand.head(writer.size_bytes))
    writer.close()
    return lab.raw(RUN).splitlines(keepends=True), hand


def _corrupt_at(lab: RunStoreLab, line: int, what: str) -> None:
    before = lab.raw(RUN)
    writer = lab.store().open(RUN)
    for read in (lab.store().read(RUN), writer.read()):
        error = refused(Corrupt, "run_state_corrupt", partial(read_all, read), what)
        expect(line, error.facts.get("line"), f"line that is named when {what}")
    stopped(lambda: go_on(writer), what)
    writer.close()
    expect(before, lab.raw(RUN), "bytes of the journal")


@case()
def a_head_is_read_as_it_was_published(lab: RunStoreLab) -> None:
    """Lists show its row without reading the journal, also in another process and after the writer is gone."""
    writer, hand = born(lab)
    expect(None, lab.store().head(RUN), "head before one is published")
    writer.publish_head(hand.head(99))
    writer.append(hand.batch({"n": 1}))
    head = Head(hand.sequence, hand.chain, 12345, {"state": "running", "n": [1, None], "text": "ä\u2028"})

    writer.publish_head(head)

    expect(head, lab.store().head(RUN), "head")
    writer.close()
    expect(head, lab.store().head(RUN), "head after the writer closed")


@case()
def a_head_behind_the_journal_says_nothing(lab: RunStoreLab) -> None:
    """It is a lower bound: what was appended since is as good."""
    _, hand = _three_with_head(lab)
    writer = lab.store().open(RUN)
    go_on(writer)
    writer.append(hand.batch({"n": 4}))
    writer.close()

    expect(([1, 2, 3, 4], "clean"), told(lambda: lab.store().read(RUN))[:2], "what a reader says")


@case()
def a_torn_end_behind_the_head_is_torn(lab: RunStoreLab) -> None:
    """Nobody was told of it, and the head does not name it."""
    lines, hand = _three_with_head(lab)
    lab.implant(RUN, b"".join(lines) + hand.batch({"n": 4}).data[:-9])
    writer = lab.store().open(RUN)

    expect(([1, 2, 3], "torn"), told(writer.read)[:2], "what the writer says")
    writer.close()


@case()
def a_head_ahead_of_a_clean_journal_is_corrupt(lab: RunStoreLab) -> None:
    """Only the head can tell a shorter file from an earlier one."""
    lines, _ = _three_with_head(lab)
    lab.implant(RUN, b"".join(lines[:2]))

    _corrupt_at(lab, 3, "the record that the head names is missing")


@case()
def an_empty_journal_below_its_head_is_corrupt(lab: RunStoreLab) -> None:
    """To call it "no such run" would hide that all of it is lost."""
    _three_with_head(lab)
    lab.implant(RUN, b"")

    _corrupt_at(lab, 1, "the journal that the head names is empty")


@case()
def a_head_ahead_of_a_torn_end_is_corrupt(lab: RunStoreLab) -> None:
    """What the head names was acknowledged, so its line may not be cut as if nobody had been told."""
    lines, _ = _three_with_head(lab)
    lab.implant(RUN, b"".join(lines)[:-9])

    _corrupt_at(lab, 3, "the record that the head names is torn")


@case()
def another_chain_than_the_heads_is_corrupt(lab: RunStoreLab) -> None:
    """A copy that went its own way has a right chain as well."""
    lines, _ = _three_with_head(lab)
    hand = Hand()
    twin = [hand.start(lab.store()).data, hand.batch({"n": 2}).data, hand.batch({"n": 33}).data]
    expect(lines[:2], twin[:2], "lines that both have")
    lab.implant(RUN, b"".join(twin) + hand.batch({"n": 4}).data)

    _corrupt_at(lab, 3, "the record that the head names is another one")


@case()
def who_accepts_a_loss_reads_and_goes_on(lab: RunStoreLab) -> None:
    """A person with a reason may continue what is left; the head then starts anew, lower than it was."""
    lines, _ = _three_with_head(lab)
    lab.implant(RUN, b"".join(lines[:2]))
    writer = lab.store().open(RUN, ignore_head=True)
    hand = go_on(writer)

    writer.append(hand.batch({"accepted": "loss"}))
    writer.publish_head(hand.head(writer.size_bytes))

    writer.close()
    expect(hand.sequence, (lab.store().head(RUN) or Head(0, "", 0, {})).sequence, "sequence of the head")
    expect(([1, 2, 3], "clean"), told(lambda: lab.store().read(RUN))[:2], "what a reader says")


@case()
def a_head_never_goes_back(lab: RunStoreLab) -> None:
    """A lower bound that sank would let acknowledged records vanish."""
    _, hand = _three_with_head(lab)
    writer = lab.store().open(RUN)
    go_on(writer)

    _publishes_nothing(lab, writer, Head(2, "0" * 64, 0, {}), hand.sequence, "the head would sink")


@case()
def a_head_names_nothing_that_is_not_acknowledged(lab: RunStoreLab) -> None:
    """It would make a legal journal corrupt."""
    _, hand = _three_with_head(lab)
    writer = lab.store().open(RUN)
    go_on(writer)

    _publishes_nothing(lab, writer, Head(4, "0" * 64, 0, {}), hand.sequence, "the head would name a record to come")


def _publishes_nothing(lab: RunStoreLab, writer: RunWriter, head: Head, sequence: int, what: str) -> None:
    stopped(lambda: writer.publish_head(head), what)
    writer.close()
    expect(sequence, (lab.store().head(RUN) or Head(0, "", 0, {})).sequence, f"sequence of the head after {what}")
    expect("clean", told(lambda: lab.store().read(RUN))[1], "end of the journal")


CASES: Final = cases_of(globals())
