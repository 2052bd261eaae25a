"""What the invariant checker reports: one finding, and the slip on which findings are noted. No rule stands here."""

from typing import Any, Final, Literal

import msgspec

Label = Literal["I-1", "I-2", "I-3", "I-4", "I-5", "I-6", "I-7", "I-8", "I-9", "I-10", "I-11", "I-12"]

INVARIANTS: Final[dict[Label, str]] = {
    "I-1": "records are numbered 1, 2, 3 … as they stand",
    "I-2": "one number, one record",
    "I-3": "nothing follows the finish but what may",
    "I-4": "a step starts once",
    "I-5": "what a turn or a session says belongs to it",
    "I-6": "one key for all that is said of one effect",
    "I-7": "a call has exactly one end, and something explains it",
    "I-8": "a checkpoint belongs to its run, operation and call",
    "I-9": "one decision an approval, and no start against it",
    "I-10": "after an abort was asked for, nothing begins",
    "I-11": "the operation moves only as it may",
    "I-12": "what is known of an attempt never goes back",
}
"""What each invariant says, in words."""


class Finding(msgspec.Struct, frozen=True):
    """One place where a journal breaks an invariant.

    Attributes:
        label: Which one, of `INVARIANTS`.
        line: The record's place among those that were looked at, from 1; of a whole journal, its line.
        sequence: The number that the record itself carries.
        what: What was found.
        subject: What it is about: a step, a turn, a key, an approval, a checkpoint; empty when it is the record itself.
    """

    label: Label
    line: int
    sequence: int
    what: str
    subject: str

    def as_json(self) -> dict[str, Any]:
        """The members, and what the invariant says."""
        return {**msgspec.structs.asdict(self), "invariant": INVARIANTS[self.label]}


class Slip:
    """Where the rules note what they find, at the record that is being looked at. Lives for one pass.

    Attributes:
        found: The findings, only the first `keep` of them.
        count: How many there were.
        line: The place of the record that is being looked at.
        sequence: Its number.
    """

    __slots__ = ("count", "found", "keep", "line", "sequence")

    def __init__(self, keep: int) -> None:
        self.found: list[Finding] = []
        self.count = 0
        self.keep = keep
        self.line = 0
        self.sequence = 0

    def note(self, label: Label, what: str, subject: str = "") -> None:
        """One more finding at this record."""
        self.note_at(self.line, self.sequence, label, what, subject)

    def note_at(self, line: int, sequence: int, label: Label, what: str, subject: str) -> None:
        """One more finding, at a record that was looked at before."""
        self.count += 1
        if len(self.found) < self.keep:
            self.found.append(Finding(label, line, sequence, what, subject))
