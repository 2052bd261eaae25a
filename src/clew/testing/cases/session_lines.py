"""How a session grows, and what its readers see. Who may write it is in the other modules."""

from functools import partial
from typing import Final

from clew.errors import Storage
from clew.stores.base import SessionWriter
from clew.testing.faults import Strikes
from clew.testing.kit import Case, case, cases_of, expect, refused
from clew.testing.lab import Step
from clew.testing.sessionlab import SESSION, SessionStoreLab, header, line, read_all

_CODES: Final[dict[Step, str]] = {"write": "run_state_failed", "sync": "durability_barrier_failed"}


@case(177)
def lines_come_back_in_the_order_of_the_appends(lab: SessionStoreLab) -> None:
    """Created, appended, opened again and appended again, a conversation is what was said, once."""
    writer = lab.store().create(SESSION, header())
    writer.append(line(1))
    writer.append(line(2) + line(3))
    writer.close()
    again = lab.store().open(SESSION)
    again.append(line(4))
    again.close()

    expect(header() + line(1) + line(2) + line(3) + line(4), read_all(lab.store()), "bytes of the session")


@case()
def an_append_says_where_its_lines_begin(lab: SessionStoreLab) -> None:
    """By that place they are found again, without a look at all that stands before."""
    writer = lab.store().create(SESSION, header())

    places = [writer.append(line(1, "x" * 700)), writer.append(line(2) + line(3))]

    first, second = len(header()), len(header() + line(1, "x" * 700))
    expect([first, second], places, "where the appends begin")
    expect(
        line(2), b"".join(lab.store().read(SESSION, second, second + len(line(2)))), "bytes of a range, for a reader"
    )
    expect(line(1, "x" * 700), b"".join(writer.read(first, second)), "bytes of a range, for the writer")
    expect(writer.size_bytes, lab.store().size_bytes(SESSION), "length of the session")
    writer.close()


@case()
def any_bytes_come_back_as_they_were(lab: SessionStoreLab) -> None:
    """A text store turns line ends, cuts at separators and replaces what it cannot decode."""
    strange = '{"a":"\u2028\u2029\u0085 \u00a0é"}\r\n'.encode() + b'{"b":"\xff\xfe"}\n' + b'{"c":"\\ud83d"}\n'
    writer = lab.store().create(SESSION, header())
    writer.append(strange)
    writer.close()

    expect(header() + strange, read_all(lab.store()), "bytes of the session")


@case()
def long_lines_are_kept_whole(lab: SessionStoreLab) -> None:
    """A picture is one line of megabytes, and a reader gets it in pieces."""
    long = line(1, "x" * 3_000_000)
    writer = lab.store().create(SESSION, header())
    at = writer.append(long)
    writer.append(line(2))
    writer.close()

    expect(header() + long + line(2), read_all(lab.store()), "bytes of the session")
    expect(line(2), b"".join(lab.store().read(SESSION, at + len(long))), "bytes behind the long line")


@case(182)
def what_was_acknowledged_is_there_for_everyone(lab: SessionStoreLab) -> None:
    """A screen beside a run shows what was said, at once."""
    writer = lab.store().create(SESSION, header())
    for number in range(1, 4):
        writer.append(line(number))
        expect(b"".join(map(line, range(1, number + 1))), read_all(lab.store())[len(header()) :], "lines")
    writer.close()


@case()
def a_reading_ends_where_the_session_ended_at_its_beginning(lab: SessionStoreLab) -> None:
    """A reader beside a busy writer comes to an end, and never sees half a line."""
    writer = lab.store().create(SESSION, header() + line(1, "x" * 2_500_000))
    reading = iter(lab.store().read(SESSION))
    first = next(reading)
    writer.append(line(2))

    expect(header() + line(1, "x" * 2_500_000), first + b"".join(reading), "bytes that the reading gives")
    writer.close()


@case()
def readers_change_nothing(lab: SessionStoreLab) -> None:
    """Listing and showing leave every byte as it was, also of an end that a writer would mend."""
    data = header() + line(1) + line(2)[:-7]
    lab.implant(SESSION, data)
    store = lab.store()

    for _ in range(2):
        expect(data, read_all(store), "bytes that a reader sees")
        expect(([SESSION], len(data)), (list(store.ids()), store.size_bytes(SESSION)), "ids and size")

    expect(data, lab.raw(), "bytes of the session")


def _ends_the_writer(step: Step, lab: SessionStoreLab) -> None:
    writer = lab.store().create(SESSION, header())
    writer.append(line(1))

    with lab.fail(step):
        refused(Storage, _CODES[step], partial(writer.append, line(2) + line(3)), f"the {step} fails")

    left, before = lab.raw(), header() + line(1)
    expect(
        True, left.startswith(before) and (before + line(2) + line(3)).startswith(left), "at most that append is there"
    )
    expect(True, writer.poisoned, "whether the writer is poisoned")
    _does_nothing_more(writer)
    expect(left, lab.raw(), "bytes of the session after more was tried")
    writer.close()
    heir = lab.store().open(SESSION, wait_s=0.0)
    expect(len(left), heir.size_bytes, "length that the next writer finds")
    heir.close()


def _does_nothing_more(writer: SessionWriter) -> None:
    deeds = (
        partial(writer.append, line(9)),
        partial(writer.cut, len(header())),
        partial(writer.back_up, 3),
        partial(writer.renew, [header()]),
        lambda: b"".join(writer.read()),
    )
    for deed in deeds:
        refused(Storage, "fact_ledger_poisoned", deed, "the writer is closed")


a_failed_write_ends_the_writer: Case[SessionStoreLab] = Case(
    "a_failed_write_ends_the_writer",
    "What stands at the end is not known any more, so nothing may be put behind it.",
    partial(_ends_the_writer, "write"),
)
a_failed_sync_ends_the_writer: Case[SessionStoreLab] = Case(
    "a_failed_sync_ends_the_writer",
    "A second sync succeeds and hides that the first one lost the lines.",
    partial(_ends_the_writer, "sync"),
)


@case()
def a_closed_writer_does_nothing_more(lab: SessionStoreLab) -> None:
    """Its lock is somebody else's now, who would be overwritten."""
    writer = lab.store().create(SESSION, header())

    writer.close()
    writer.close()

    expect(True, writer.poisoned, "whether the writer is poisoned")
    _does_nothing_more(writer)
    expect(header(), read_all(lab.store()), "bytes of the session")


@case()
def an_append_interrupted_anywhere_is_never_half_acknowledged(lab: SessionStoreLab) -> None:
    """After an interrupt nobody knows how far it came, so the writer is dead, or the lines are there and it lives."""
    strikes = Strikes(KeyboardInterrupt)
    for number in range(2000):
        session_id = f"s{number}"
        writer = lab.store().create(session_id, header(session_id))
        end = strikes.strike(partial(writer.append, line(1)))
        left = read_all(lab.store(), session_id)
        expect(
            True, left in (header(session_id), header(session_id) + line(1)), "whether a whole append is there or none"
        )
        if not writer.poisoned:
            at = writer.append(line(2))
            expect((len(left), left + line(2)), (at, read_all(lab.store(), session_id)), "the next append")
        writer.close()
        if end == "spared":
            return
    expect("an end", "ever new lines", "lines of an append")


CASES: Final = cases_of(globals())
