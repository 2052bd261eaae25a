"""The shapes of one journal line and of what is appended together. No meaning of the payloads: that is `state`."""

from typing import Any, Final, Literal

import msgspec

Kind = Literal[
    "start", "resume", "telemetry_configuration", "telemetry_consent", "control", "delegation",
    "event", "checkpoint", "loop", "operation", "pause", "finish",
]  # fmt: skip

Payload = dict[str, Any]


class Record(msgspec.Struct, gc=False, omit_defaults=True, rename="camel"):
    """One numbered line of a journal, members in the order in which they are written.

    `chain` and `append` are absent in journals that clew did not begin.

    Source:
        reference/journal.md §1; contract §2.2.
    """

    version: Literal[1]
    run_id: str
    sequence: int
    event_id: str | msgspec.UnsetType
    timestamp: str
    kind: Kind
    payload: Payload
    chain: str | None = None
    append: int | None = None


_read: Final = msgspec.json.Decoder(Record).decode_lines


class Draft(msgspec.Struct, frozen=True, gc=False):
    """One record before it has a number: what is said, not where it stands."""

    kind: Kind
    payload: Payload


class Batch(msgspec.Struct, frozen=True, gc=False):
    """One append, encoded: whole lines that are written and synced together.

    `first` and `last` are the sequences of its records, `first` the `append` of all; `chain` is the value after the
    last; `made` are the records from which its lines were made, where there were any.
    """

    run_id: str
    first: int
    last: int
    data: bytes
    chain: str
    made: tuple[Record, ...] | None = None

    @property
    def records(self) -> tuple[Record, ...]:
        """The records, as a reader of the lines finds them."""
        return tuple(_read(self.data)) if self.made is None else self.made


class Head(msgspec.Struct, frozen=True, rename="camel"):
    """A lower bound of a journal, published beside it: what can never be missing again.

    `size_bytes` is the journal's length when it was published; `row` is the line that `clew ls` shows.
    """

    sequence: int
    chain: str
    size_bytes: int
    row: Payload
