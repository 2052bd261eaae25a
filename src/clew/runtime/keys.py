"""One execution a business key: before a start its key is claimed, and a claim is worth what its run's journal says.

How claims are kept is known to the index; who has which key is looked up in `keybook`.
"""

from collections.abc import Collection
from typing import Any, Final

import msgspec

from clew.core.answers import Answer
from clew.core.canon import Json
from clew.core.jsonable import to_json
from clew.core.keys import Claim, Standing, business_key, invalid_key, judge, recorded_key
from clew.core.needs import Allow, Taken
from clew.core.records import Record
from clew.core.redact import Redactor
from clew.core.state import RunState
from clew.core.times import format_ms
from clew.errors import ClewError, Refused, UsageError
from clew.runtime.keybook import KeyBook, facts_of
from clew.runtime.recovery import Reopened
from clew.runtime.tickets import Ticket
from clew.runtime.tools import Tool

_WORDS: Final = {
    "starting": "about to start",
    "open": "started, and nobody knows yet how it ended",
    "committed": "done",
    "happened": "settled as happened",
    "given_up": "given up: nobody will ever know whether it happened",
    "unreadable": "claimed, and its journal does not say what became of it",
}


def asked_key(tool: Tool, arguments: dict[str, Any], plain: Json, redactor: Redactor) -> dict[str, str]:
    """The business key of a call that is asked for, as it is recorded; arguments left out get their defaults.

    Raises:
        UsageError: `invalid_business_key` when the key function raises or gives no key; nothing was recorded.
    """
    assert tool.key is not None
    try:
        made = tool.key(**_with_defaults(tool, arguments))
    except Exception as fault:
        raise invalid_key(f"its function raised {type(fault).__name__}", tool.name) from fault
    try:
        return business_key(to_json(made, at="key"), plain, redactor).as_json()
    except UsageError as fault:
        if fault.code != "invalid_business_key":
            raise invalid_key(f"a {type(made).__name__} is no JSON value", tool.name) from fault
        raise invalid_key(fault.facts["why"], tool.name) from None


def _with_defaults(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    parameters = list(tool.signature.parameters.values())[tool.takes_call :]
    defaults = {one.name: one.default for one in parameters if one.default is not one.empty}
    return defaults | arguments


def key_in(record: Record) -> dict[str, str] | None:
    """The business key that stands in the record of a call."""
    found = recorded_key(record.payload["event"])
    return None if found is None else found.as_json()


class Keys:
    """The taking of business keys in one leg; holds nothing, safe for threads."""

    def __init__(self, book: KeyBook, redactor: Redactor) -> None:
        self._book = book
        self._redactor = redactor

    def hold(self, state: RunState, nonce: str, ticket: Ticket, attempt: int, flying: Collection[str]) -> Allow | Taken:
        """Take the key of a call for one attempt, durably, before its start is appended. Blocks, and waits for nobody.

        Args:
            state: The run that asks, whose journal this process writes.
            nonce: Of its open leg.
            ticket: The call, with its business key.
            attempt: The one that is about to start.
            flying: Keys of the run's effects that are under way: of its own leg, no other may still start.

        Returns:
            `Taken` when another call has the key; nothing may start then.

        Raises:
            Refused: `key_index_unusable`: nobody can tell who has the key; nothing was started or recorded.
        """
        try:
            return self._hold(state, nonce, ticket, attempt, flying)
        except ClewError as fault:
            raise _unusable(state.run_id, fault) from fault

    def _hold(
        self, state: RunState, nonce: str, ticket: Ticket, attempt: int, flying: Collection[str]
    ) -> Allow | Taken:
        index = self._book.required()
        mine = self._claim_of(ticket, nonce, attempt)
        while True:
            mark = index.mark() or self._book.built(index)
            number, other = index.last(mine.sha256, mine.tool) or (0, None)
            # This very call may claim anew: that it may start (again) is what its own journal says.
            if other is not None and other.idempotency_key != mine.idempotency_key:
                standing = self._standing(other, state.run_id, flying)
                if standing.holds:
                    return self._taken(msgspec.structs.replace(other, text=mine.text), standing, ticket)
            # An index that was removed and built anew meanwhile may know of a holder that this claim stands behind.
            if index.take(number + 1, mine) and index.mark() == mark:
                return Allow()

    def _claim_of(self, ticket: Ticket, nonce: str, attempt: int) -> Claim:
        facts = ticket.facts
        assert facts.business is not None
        return Claim(
            1, facts.tool, facts.business["sha256"], facts.business["text"], facts.run_id, facts.step_id,
            facts.call_id, facts.key, attempt, nonce, format_ms(self._book.clock.now_ms()),
        )  # fmt: skip

    def _standing(self, claim: Claim, asking: str, flying: Collection[str]) -> Standing:
        """What a claim of another call is worth; of a leg that is provably gone, what it left behind counts.

        Of this very leg, a claim whose call is not under way was never followed by its start, and will not be.
        """
        standing = self._book.judged(claim)
        if standing.word != "starting":
            return standing
        if claim.run_id != asking:
            return self._left_behind(claim) or standing
        return standing if claim.idempotency_key in flying else Standing("free", standing.call)

    def _left_behind(self, claim: Claim) -> Standing | None:
        """What a claim is worth whose leg is provably gone; None while it may live. Under its lock, writing nothing."""
        try:
            writer = self._book.store.open(claim.run_id, wait_s=0.0)
        except ClewError:
            return None
        try:
            opened = Reopened(self._book.store, self._book.clock, writer, "control")
            opened.take_over("proven")
        except ClewError:
            return None
        finally:
            writer.close()
        standing = judge(opened.state, claim)
        return Standing("free", standing.call) if standing.word == "starting" else standing

    def _taken(self, claim: Claim, standing: Standing, ticket: Ticket) -> Taken:
        message = (
            f"{claim.tool} with the business key {claim.text!r} is {_WORDS[standing.word]} "
            f"in run {claim.run_id!r}, step {claim.step_id!r}"
        )
        answer = self._answer_for(standing, claim, ticket)
        return Taken(message, facts_of(claim, standing), answer, starting=standing.word == "starting")

    def _answer_for(self, standing: Standing, claim: Claim, ticket: Ticket) -> Answer | None:
        """The holder's answer, where the tool wants it and the same was asked; an error is not handed on."""
        call = standing.call
        if ticket.tool.on_held != "answer" or ticket.tool.secret or call is None or call.answer is None:
            return None
        if standing.word not in ("committed", "happened") or call.fingerprint != ticket.facts.fingerprint:
            return None
        answer = self._book.read_answer(claim.run_id, call)
        if answer is None or answer.error is not None:
            return None
        return Answer(self._redactor.answer(answer.value))


def _unusable(run_id: str, fault: ClewError) -> ClewError:
    """Nobody can tell who has a key; nothing was started, so the agent is told and the journal stays sound."""
    if isinstance(fault, Refused):
        return fault
    return Refused(
        f"run {run_id!r}: its business key cannot be claimed: {fault.message}",
        code="key_index_unusable",
        next=fault.next,
        cause=fault.code,
    )
