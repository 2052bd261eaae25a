"""What every store says in the same words when it refuses. Nothing here reads or writes."""

from collections.abc import Iterable
from typing import Any

from clew.core.ids import same_id
from clew.errors import Corrupt, Held, NotFound, Refused, Storage

_VERIFY = "Nothing was changed. Run `clew verify` to see the place; restore the file from a copy."


def unknown_run(run_id: str, place: str) -> NotFound:
    """There is no journal under this id."""
    return NotFound(
        f"there is no run {run_id!r} in {place!r}",
        code="unknown_run",
        next="List the runs of this home with `clew ls`.",
        run=run_id,
    )


def empty_run(run_id: str, place: str) -> NotFound:
    """A file of that name is there, and empty: a run is born with its first records, so this was never one."""
    return NotFound(
        f"there is no run {run_id!r}: {place!r} is empty",
        code="unknown_run",
        next="Bring the file back from a copy, or remove it if there was never a run of this name.",
        run=run_id,
        path=place,
    )


def require_free(run_id: str, taken: Iterable[str]) -> None:
    """Refuse an id that names the same file as another one where case is ignored.

    Raises:
        Refused: `run_id_conflict`.

    Source:
        DESIGN §4.
    """
    for other in taken:
        if same_id(run_id, other):
            raise id_taken(run_id, other)


def id_taken(run_id: str, other: str) -> Refused:
    """An id is never given twice, and never replaced."""
    return Refused(
        f"there is a run {other!r} already, so {run_id!r} cannot begin",
        code="run_id_conflict",
        next=f"Continue it with `clew resume {other}`, or choose another id.",
        run=run_id,
        existing=other,
    )


def held(run_id: str, leg: dict[str, Any] | None, since: str, state: str) -> Held:
    """Another descriptor has the lock. Names its holder as the last unclosed leg tells it."""
    who, pid = "another process", None if leg is None else leg.get("pid")
    if leg is not None:
        who = f"process {pid!r} on {leg.get('host')!r} ({state}), since {since}"
    return Held(
        f"run {run_id!r} is being written by {who}",
        code="run_state_locked",
        # A stopped process reads no command before it goes on.
        next=f"Let that process go on (`kill -CONT {pid}`) or end it; the lock is never taken from it."
        if state == "stopped" and leg is not None
        else f"Wait for that process, or pause it (`clew pause {run_id}`); the lock is never taken from it.",
        run=run_id,
        owner=leg,
        since=since,
        state=state,
    )


def being_pruned(place: str, who: bytes) -> Held:
    """A prune has the home for itself; it is soon over."""
    return Held(
        f"the home {place!r} is being pruned by {who.decode(errors='replace') or 'another process'}",
        code="home_being_pruned",
        next="Wait for it to end, then do it again; nothing was changed.",
        path=place,
    )


def corrupt_place(run_id: str, byte: int, why: str) -> Corrupt:
    """At a place where a record was read before, none stands now."""
    return Corrupt(
        f"the journal of run {run_id!r} is damaged at byte {byte}: {why}",
        code="run_state_corrupt",
        next=_VERIFY,
        run=run_id,
        byte=byte,
        why=why,
    )


def corrupt_file(place: str, code: str, why: str) -> Corrupt:
    """A published file does not hold what was published."""
    return Corrupt(f"{place!r}: {why}", code=code, next=_VERIFY, path=place, why=why)


def head_corrupt(run_id: str, place: str, why: str) -> Corrupt:
    """Nobody knows from this head how far the journal was; what is left of it counts on a person's word."""
    return Corrupt(
        f"{place!r}: it holds no head: {why}",
        code="head_corrupt",
        next=f"Restore the file from a copy, or run `clew verify {run_id} --accept-loss --by NAME --reason TEXT`.",
        run=run_id,
        path=place,
        why=why,
    )


def control_conflict(run_id: str, control_id: str) -> Refused:
    """The id of a command is used for another command."""
    return Refused(
        f"run {run_id!r} has another command under the id {control_id!r}",
        code="control_conflict",
        next="Give the command an id of its own.",
        run=run_id,
        controlId=control_id,
    )


def poisoned(run_id: str) -> Storage:
    """This writer is dead: what stands at the end of the journal is not known to it any more."""
    return Storage(
        f"run {run_id!r}: this writer is closed: an append failed or was interrupted, or this is a forked child",
        code="fact_ledger_poisoned",
        next="Resume the run in a new process: it reads what the disk really kept.",
        run=run_id,
    )


def conflicting(run_id: str, first: int, expected: int) -> Storage:
    """Another record stands at this number already, or one before it is missing (contract #27, #28)."""
    return Storage(
        f"run {run_id!r}: records from {first} on were to be appended where record {expected} follows",
        code="run_state_conflict",
        next="Nothing was written. Resume the run in a new process: it goes on behind what is really there.",
        run=run_id,
        sequence=first,
        expected=expected,
    )


def replaced(run_id: str, found: int, expected: int) -> Storage:
    """Somebody else changed the journal under its writer."""
    return Storage(
        f"run {run_id!r}: its journal has {found} bytes, expected {expected}; somebody else changed it",
        code="journal_replaced",
        next="Find out what touched it, then `clew verify` the run.",
        run=run_id,
    )


def blob_missing(digest: str, place: str) -> NotFound:
    """Nothing is kept under this digest."""
    return NotFound(
        f"there are no bytes with the digest {digest!r} at {place!r}",
        code="blob_missing",
        next="Bring the file back from a copy of the home; what needs it waits for a review.",
        sha256=digest,
    )
