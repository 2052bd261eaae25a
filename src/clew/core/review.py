"""Settlements: what a probe, a person or a tool says of an attempt whose end nobody recorded."""

from typing import Any, Final, Literal

import msgspec

Outcome = Literal["happened", "did_not_happen", "give_up"]
Source = Literal["operator", "probe", "checkpoint", "tool"]

_MISSING: Final = "the result was not recorded"


class Happened(msgspec.Struct, frozen=True):
    """The effect is there. `result` is what the tool would have returned; leave it out when nobody knows it."""

    result: Any = msgspec.UNSET
    reason: str = ""


class DidNotHappen(msgspec.Struct, frozen=True):
    """The effect is not there and can no longer land."""

    reason: str = ""


class GiveUp(msgspec.Struct, frozen=True):
    """Nobody will ever know: the run ends, the effect stays listed as unknown."""

    reason: str = ""


class CannotTell(msgspec.Struct, frozen=True):
    """A probe could not find out; `retry_in_s` says in how many seconds to ask again."""

    reason: str
    retry_in_s: float | None = None


Verdict = Happened | DidNotHappen | GiveUp | CannotTell
Settlement = Happened | DidNotHappen | GiveUp


class Review(msgspec.Struct, frozen=True, gc=False):
    """The recorded settlement of one open attempt.

    `result_recorded` and no result behind it (`complete` is False) means that the record was torn: not given.
    """

    review_id: str
    outcome: Outcome
    source: Source
    by: str
    reason: str
    result_recorded: bool
    complete: bool

    @property
    def given(self) -> bool:
        """Does it count?"""
        return self.complete or not self.result_recorded


def outcome_of(verdict: Settlement) -> Outcome:
    """The word that stands in the journal."""
    if isinstance(verdict, Happened):
        return "happened"
    return "did_not_happen" if isinstance(verdict, DidNotHappen) else "give_up"


def missing_result_message(tool: str, by: str) -> str:
    """What the agent reads when an effect happened but its result is not known."""
    return f"{tool} happened, as settled by {by}; {_MISSING}"
