"""How far journals are known to have come, from a verdict that was kept elsewhere. Who keeps it is not known here."""

from collections.abc import Iterable, Iterator

import msgspec

from clew.core.records import Record
from clew.errors import Corrupt, NotFound, UsageError

_NEXT = "Give the file that `clew verify --json > FILE` wrote, kept where nobody who may write the home can change it."


class KnownEnd(msgspec.Struct, frozen=True, rename="camel"):
    """The last record of a journal when it was verified, and its chain value; empty in a journal without chain."""

    run_id: str
    records: int
    chain: str


def read_known(text: bytes) -> dict[str, KnownEnd]:
    """What `clew verify --json` said of one run or of all, by run. A run that it could not verify is not in it.

    Raises:
        UsageError: `invalid_verdict` when it is no such answer, or says two things of one run.
    """
    try:
        told = msgspec.json.decode(text)
        rows = [row for row in (told if type(told) is list else [told]) if "error" not in row]
        ends = msgspec.convert(rows, list[KnownEnd])
    except (msgspec.MsgspecError, TypeError) as fault:
        raise _no_verdict(str(fault)) from None
    found = {end.run_id: end for end in ends}
    if len(found) < len(ends):
        raise _no_verdict("it names a run twice")
    return found


def held_against(records: Iterable[tuple[Record, int]], known: KnownEnd) -> Iterator[tuple[Record, int]]:
    """The records of a journal, as far as they are those that were known.

    Raises:
        Corrupt: `run_state_corrupt` at the known record when another stands in its place, or when the journal ends
            before it: it was cut, or an older copy was put in its place.
    """
    sequence = 0
    for record, position in records:
        sequence = record.sequence
        if sequence == known.records and (record.chain or "") != known.chain:
            raise _other(known, sequence, f"record {sequence} is not the one that was verified before")
        yield record, position
    if sequence < known.records:
        raise _other(known, sequence, f"it ends with record {sequence}, and record {known.records} was verified before")


def gone(known: KnownEnd) -> Corrupt:
    """The error of a run that was verified and is not there any more."""
    return _other(known, 0, f"there is no journal, and record {known.records} was verified before")


def unknown(run_id: str) -> NotFound:
    """The error of a run of which the verdict says nothing."""
    return NotFound(
        f"the verdict to compare with says nothing of run {run_id!r}",
        code="unknown_run",
        next=f"Leave --against out for this run, or compare with a verdict that names it: {_NEXT}",
        run=run_id,
    )


def _other(known: KnownEnd, line: int, why: str) -> Corrupt:
    return Corrupt(
        f"run {known.run_id!r} is not what it was: {why}",
        code="run_state_corrupt",
        next=f"Nothing was changed. Find out who changed it, and restore a copy that has record {known.records}.",
        run=known.run_id,
        line=line,
        known=known.records,
        why=why,
    )


def _no_verdict(why: str) -> UsageError:
    return UsageError(f"this is no verdict of `clew verify --json`: {why}", code="invalid_verdict", next=_NEXT)
