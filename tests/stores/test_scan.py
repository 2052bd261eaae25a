"""The pass over a journal: pieces, places, the leg, and an end that is looked at twice."""

from collections.abc import Iterator
from typing import Any

import pytest

from clew.core.records import Head
from clew.errors import Corrupt, Storage
from clew.stores.scan import JournalReading, OwnerState, place_of_repeated, record_of_line
from tests.core.journals import RUN, Written, sample
from tests.stores.lab import Hand, MemoryLab


class Shown:
    """A source that shows other bytes at each look, as a file does that is being written; the last ones stay."""

    def __init__(self, *looks: bytes, piece: int = 1 << 20) -> None:
        self.looks = list(looks)
        self.piece = piece
        self.count = 0
        self.most = 0

    def pieces(self, start: int) -> Iterator[bytes]:
        data = self.looks[min(self.count, len(self.looks) - 1)]
        self.count += 1
        for at in range(start, len(data), self.piece):
            self.most = max(self.most, at + self.piece - start)
            yield data[at : at + self.piece]


@pytest.fixture
def written() -> Written:
    return sample()


def read(source: Shown, owner: OwnerState | None = None, head: Head | None = None, run_id: str = RUN) -> JournalReading:
    reading = JournalReading(run_id, source, head, None if owner is None else lambda _: owner)
    reading.found = [record.sequence for record, _ in reading]  # type: ignore[attr-defined]  # for the assertions
    return reading


def said(reading: Any) -> tuple[list[int], str, int, int]:
    return reading.found, reading.tail.verdict, reading.tail.at_byte, reading.tail.bytes


@pytest.mark.parametrize("piece", [1, 7, 100, 511, 512, 10_000])
def test_the_length_of_the_pieces_changes_nothing(written: Written, piece: int) -> None:
    """A line may lie across any number of them."""
    reading = read(Shown(written.data, piece=piece))

    assert said(reading) == ([1, 2, 3, 4, 5, 6, 7, 8], "clean", len(written.data), 0)


@pytest.mark.parametrize("cut", [3, 200, 900])
def test_an_end_that_grew_meanwhile_is_read_on(written: Written, cut: int) -> None:
    """A reader that looks in the middle of a write must not call it torn, nor lose what follows."""
    reading = read(Shown(written.data[:-cut], written.data))

    assert said(reading) == ([1, 2, 3, 4, 5, 6, 7, 8], "clean", len(written.data), 0)


def test_an_lf_that_came_meanwhile_is_no_line_of_its_own(written: Written) -> None:
    """The record before it was read already, and must not be read twice."""
    reading = read(Shown(written.data[:-1], written.data))

    assert said(reading) == ([1, 2, 3, 4, 5, 6, 7, 8], "clean", len(written.data), 0)


def test_more_lines_behind_a_missing_lf_are_read(written: Written) -> None:
    """The writer went on while we looked."""
    first = written.starts[5] - 1
    reading = read(Shown(written.data[:first], written.data))

    assert said(reading) == ([1, 2, 3, 4, 5, 6, 7, 8], "clean", len(written.data), 0)


def test_another_byte_in_the_place_of_an_lf_is_damage(written: Written) -> None:
    """Nobody writes it, so it is not an end that is being written."""
    first = written.starts[5] - 1

    with pytest.raises(Corrupt):
        read(Shown(written.data[:first], written.data[:first] + b"x" + written.data[first + 1 :]))


def test_a_torn_end_that_a_writer_cut_meanwhile_is_read_on(written: Written) -> None:
    """Repair and the next append happen between two looks of `clew ls`."""
    at = written.starts[4]
    torn = written.data[:at] + written.data[at : at + 60]
    reading = read(Shown(torn, written.data))

    assert said(reading) == ([1, 2, 3, 4, 5, 6, 7, 8], "clean", len(written.data), 0)


def test_an_end_that_is_the_same_twice_is_judged(written: Written) -> None:
    """Nothing came in between, so nobody is writing it."""
    source = Shown(written.data[:-3])
    reading = read(source)

    assert said(reading) == (
        [1, 2, 3, 4, 5, 6, 7],
        "torn",
        written.starts[7],
        len(written.data) - 3 - written.starts[7],
    )


def test_a_writer_that_never_rests_does_not_hold_the_reader(written: Written) -> None:
    """The end keeps changing: after some looks it is said to be written, not followed for ever."""
    looks = [leg_journal() + b'{"version":1,"runId":"r1","sequence":2,' + b"x" * n for n in range(100)]
    source = Shown(*looks)

    reading = read(source, "alive", run_id="r1")

    assert (reading.tail.verdict, source.count < 20) == ("being_written", True)


def leg_journal() -> bytes:
    return Hand().start(MemoryLab().store).data


@pytest.mark.parametrize(
    ("owner", "verdict"),
    [("alive", "being_written"), ("stopped", "being_written"), ("gone", "torn"), ("elsewhere", "torn")],
)
def test_only_a_living_owner_is_believed_to_be_writing(owner: OwnerState, verdict: str) -> None:
    """Of one that is gone, or that nobody can see, the end is what it is."""
    reading = read(Shown(leg_journal() + b'{"version":1,"runId":"r1"'), owner, run_id="r1")

    assert reading.tail.verdict == verdict


def test_a_missing_lf_of_a_living_owner_is_being_written() -> None:
    """The LF may be the next byte."""
    reading = read(Shown(leg_journal()[:-1]), "alive", run_id="r1")

    assert reading.tail.verdict == "being_written"


def test_a_living_owner_does_not_excuse_damage() -> None:
    """Its end may be unfinished, but nothing that it writes looks like this."""
    with pytest.raises(Corrupt) as caught:
        read(Shown(leg_journal() + b'{"version":2}\n'), "alive", run_id="r1")

    assert caught.value.facts["line"] == 2


def test_a_shorter_file_than_the_head_is_damage(written: Written) -> None:
    """Whole lines, a right chain, and yet what was acknowledged is missing."""
    with pytest.raises(Corrupt) as caught:
        read(Shown(written.data[: written.starts[5]]), head=Head(7, "0" * 64, 0, {}))

    assert (caught.value.facts["line"], caught.value.facts["byte"]) == (6, written.starts[5])


def test_another_chain_than_the_heads_is_damage(written: Written) -> None:
    """A copy that went its own way has right chains as well."""
    with pytest.raises(Corrupt) as caught:
        read(Shown(written.data), head=Head(3, "0" * 64, 0, {}))

    assert caught.value.facts["line"] == 3


def test_a_line_longer_than_an_append_ends_the_reading(written: Written) -> None:
    """A file without LF must not fill the memory."""
    source = Shown(written.data + b"x" * (40 << 20))

    with pytest.raises(Corrupt):
        read(source)

    assert source.most <= 34 << 20


def test_the_unclosed_leg_is_the_last_that_was_opened() -> None:
    """The claim on a run is what it says, so a closed or an earlier one must not stand for it."""
    hand, store = Hand(), MemoryLab().store
    data = hand.start(store, "n1").data + hand.batch({}, kind="pause").data
    closed = read(Shown(data), run_id="r1").leg
    data += hand.batch({"leg": {"nonce": "n2"}}, kind="resume").data

    opened = read(Shown(data), run_id="r1").leg

    assert (closed, opened) == (None, {"nonce": "n2"})


@pytest.mark.parametrize("payload", [{"event": 1}, {"event": {"type": "x"}}, {"leg": {}}, {}])
def test_other_events_close_no_leg(payload: dict[str, Any]) -> None:
    """A foreign event may have any shape."""
    hand = Hand()
    data = hand.start(MemoryLab().store).data + hand.batch(payload).data

    reading = read(Shown(data), run_id="r1")

    assert reading.leg is not None


def test_a_line_of_another_run_is_not_given_out(written: Written) -> None:
    """A position that belongs to another journal could name a whole line."""
    with pytest.raises(Corrupt) as caught:
        record_of_line("another", written.lines[0].rstrip(b"\n"), 0)

    assert caught.value.code == "run_state_corrupt"


@pytest.mark.parametrize("name", ["leg_ended", "leg\\u005fended"], ids=["as it is", "in escapes"])
def test_a_leg_that_ended_is_no_claim(name: str) -> None:
    """Else whoever lists the run would look for a process that has closed its leg; JSON may write any letter out."""
    place = '"timestamp":"2026-11-29T14:00:00.000Z","kind":"%s","payload":%s}\n'
    head = f'{{"version":1,"runId":"{RUN}","sequence":%d,{place}'
    start = head % (1, "start", '{"leg":{"number":1}}')
    ended = head % (2, "event", f'{{"event":{{"type":"{name}","leg":1}}}}')

    assert ({"number": 1}, None) == (read(Shown(start.encode())).leg, read(Shown((start + ended).encode())).leg)


@pytest.mark.parametrize("piece", [1 << 20, 100])
def test_an_append_that_is_there_already_is_found_in_any_pieces(piece: int) -> None:
    """Its caller was interrupted behind the sync, and says the same once more."""
    hand = Hand()
    first, second = hand.start(MemoryLab().store), hand.batch({"event": 1}, {"event": 2})
    source = Shown(first.data + second.data, piece=piece)

    at = place_of_repeated(second, source, second.last + 1)

    assert len(first.data) == at


def test_an_append_that_stands_there_in_part_is_not_taken_for_done() -> None:
    """The rest of it was cut by somebody else, and must not be acknowledged."""
    hand = Hand()
    first, second = hand.start(MemoryLab().store), hand.batch({"event": 1}, {"event": 2})
    whole = first.data + second.data
    cut = whole[: whole.rindex(b"\n", 0, -1) + 1]

    with pytest.raises(Storage) as caught:
        place_of_repeated(second, Shown(cut), second.last + 1)

    assert "run_state_conflict" == caught.value.code
