"""Facts that a layer above the run puts into its journal, and how it pauses the run. Knows nothing of their meaning."""

import re
from typing import Any, Final

from clew.core.calls import Illegal
from clew.core.jsonable import to_json
from clew.core.loops import taken
from clew.core.needs import Closing
from clew.core.outcome import EXIT_BY_REASON
from clew.core.records import Draft
from clew.errors import UsageError
from clew.runtime.gate import Gate

KINDS: Final = ("loop",)
"""Kinds of record that do not concern the run itself."""
_CODE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_OWN_REASONS: Final = frozenset(EXIT_BY_REASON) - {"loop_exhausted", "loop_no_progress"}


def draft(gate: Gate, kind: str, payload: Any) -> Draft:
    """A record that may be written now, secrets hidden.

    Raises:
        UsageError: `invalid_record_kind`; `value_not_json`; `invalid_record` when it could not stand in the journal.
    """
    check_kind(kind)
    told = gate.redactor.answer(to_json(payload, at="payload"))
    try:
        taken(gate.journal.state, told)
    except Illegal as fault:
        raise UsageError(
            f"no {kind} record of run {gate.journal.state.run_id!r} may say this: {fault.why}",
            code="invalid_record",
            next="Give what docs/format.md says of records of this kind; nothing was written.",
            kind=kind,
        ) from None
    return Draft("loop", told)


def check_kind(kind: str) -> None:
    """Is this a kind that others may record?

    Raises:
        UsageError: `invalid_record_kind`.
    """
    if kind not in KINDS:
        raise UsageError(
            f"records of kind {kind!r} are the run's own",
            code="invalid_record_kind",
            next=f"Use one of: {', '.join(KINDS)}.",
            kind=kind,
        )


def recorded(gate: Gate, kind: str) -> dict[str, Any] | None:
    """The payload of the last record of this kind, as it stands in the journal; None when there is none."""
    check_kind(kind)
    return gate.journal.state.loop


def pause(gate: Gate, reason: str, message: str) -> None:
    """Close the gate, so that the run pauses for this reason.

    Raises:
        Stop: always, unless the reason is refused.
        UsageError: `invalid_pause_reason` when it is no code, or means something of clew's own.
    """
    if not _CODE.fullmatch(reason) or reason in _OWN_REASONS:
        raise UsageError(
            f"a run cannot be paused for the reason {reason!r}",
            code="invalid_pause_reason",
            next="Give a code of your own: at most 64 lower-case letters, digits and '_'.",
            reason=reason,
        )
    gate.close(Closing(reason, gate.redactor.text(message)[:2000]))
    gate.check_open()


def stopping(gate: Gate) -> str:
    """Why nothing starts any more: a reason, `aborted`, or empty while things may start."""
    if gate.aborting:
        return "aborted"
    return "" if gate.closing is None else gate.closing.reason
