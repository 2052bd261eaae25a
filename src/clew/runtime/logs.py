"""What a run says to the standard `logging`: its turning points, and whose lines the user's own are. Never arguments.

Errors are raised, not logged. Nothing here decides or writes.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from clew.core.ids import split_key
from clew.core.records import Record
from clew.runtime.journal import Watcher
from clew.runtime.place import HERE

Fields = dict[str, Any]

FIELDS: Final = ("run_id", "step_id", "call_id", "attempt")
"""What every line of a `clew.*` logger carries as attributes; empty, or 0 for the attempt, where it has none."""

_ROOT: Final = logging.getLogger("clew")
_RUN: Final = logging.getLogger("clew.run")
_EFFECT: Final = logging.getLogger("clew.effect")
_ROOT.addHandler(logging.NullHandler())

_NEEDS_CARE: Final = ("unknown_effect", "committed_effect_pending", "result_not_kept", "result_missing", "agent_error")


class LogContext(logging.Filter):
    """Gives every line that passes the attributes `run_id`, `step_id`, `call_id` and `attempt` of where it was said.

    Put it on a handler (not on a logger, whose filters do not see the lines of loggers below it), and name the
    attributes in the format: `%(run_id)s %(call_id)s`. Lines from outside of any run have them empty, so that the
    format always fits. A line that has them already keeps them.

    Source:
        issue 3, Build 8.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add what is missing; every line passes."""
        for name, value in fields_here().items():
            if not hasattr(record, name):
                setattr(record, name, value)
        return True


def fields_here() -> Fields:
    """Run, step, call and attempt of the code that runs now."""
    place = HERE.get()
    if place is None:
        return fields("")
    return {**fields(place.run_id), "step_id": place.path} if not place.key else of_key(place.key, place.attempt)


def fields(run_id: str, step_id: str = "", call_id: str = "", attempt: int = 0) -> Fields:
    """The attributes of one line."""
    return dict(zip(FIELDS, (run_id, step_id, call_id, attempt), strict=True))


def of_key(key: str, attempt: int = 0) -> Fields:
    """The attributes of a line about one attempt."""
    return fields(*split_key(key), attempt)


def listener(on_record: Watcher | None = None) -> Watcher | None:
    """Who is told of a leg's records: the caller's own function, and the log if anybody listens as the leg opens.

    A function that raises, whatever it raises, is logged and called no more: a record is durable whether it was heard
    of or not. Only Ctrl-C goes on.
    """
    told = None if on_record is None else _Guarded(on_record)
    if not _heard():
        return told
    if told is None:
        return _say

    def both(record: Record) -> None:
        told(record)
        _say(record)

    return both


class _Guarded:
    """The caller's function, until it raises for the first time."""

    def __init__(self, on_record: Watcher) -> None:
        self._on_record: Watcher | None = on_record

    def __call__(self, record: Record) -> None:
        if self._on_record is None:
            return
        # It is no part of the agent: a call of the run from here would wait for the append that it is told of.
        token = HERE.set(None)
        try:
            self._on_record(record)
        except KeyboardInterrupt:
            raise
        except BaseException as fault:  # noqa: BLE001  # whatever it raises would strike an append that was acknowledged
            self._on_record = None
            _safely(_complain, record, fault)
        finally:
            HERE.reset(token)


def _complain(record: Record, fault: BaseException) -> None:
    _RUN.warning(
        "on_record raised at record %d of run %s; it is called no more", record.sequence, record.run_id,
        exc_info=fault, extra=fields(record.run_id),
    )  # fmt: skip


def _say(record: Record) -> None:
    _safely(tell, record)


def _safely(speak: Callable[..., None], *given: Any) -> None:
    """A user's filter or formatter may raise; the journal and its run must not notice."""
    with suppress(Exception):
        speak(*given)


def _heard() -> bool:
    """Has any of our loggers a handler that does something with a line?"""
    return any(_listens(logger) for logger in (_RUN, _EFFECT))


def _listens(logger: logging.Logger) -> bool:
    if not logger.isEnabledFor(logging.CRITICAL):
        return False
    at: logging.Logger | None = logger
    while at is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in at.handlers):
            return True
        at = at.parent if at.propagate else None
    return False


def tell(record: Record) -> None:
    """Log what a durable record means for who watches over runs; of most records nothing."""
    if record.kind == "event":
        event = record.payload["event"]
        speak = _EVENTS.get(event["type"])
        if speak is not None:
            speak(record, event)
    elif record.kind in _KINDS:
        _KINDS[record.kind](record, record.payload)


def poisoned(run_id: str, fault: BaseException) -> None:
    """The journal took a failed append: from here on nothing is acknowledged. The error itself is raised at the end."""
    _safely(_poisoned, run_id, getattr(fault, "code", type(fault).__name__))


def _poisoned(run_id: str, code: str) -> None:
    _RUN.warning("run %s: its journal is poisoned (%s); nothing more starts", run_id, code, extra=fields(run_id))


def _started(record: Record, payload: Mapping[str, Any]) -> None:
    leg = payload.get("leg") or {}
    _RUN.info(
        "run %s: leg %s opened to %s by pid %s on %s",
        record.run_id, leg.get("number"), leg.get("purpose"), leg.get("pid"), leg.get("host"),
        extra=fields(record.run_id),
    )  # fmt: skip


def _resumed(record: Record, payload: Mapping[str, Any]) -> None:
    proofs, extra = payload.get("lockProof"), fields(record.run_id)
    if proofs:
        words = ", ".join(f"{proof.get('proof')}: {proof.get('answer')}" for proof in proofs)
        _RUN.warning("run %s: taken over from an owner that left it open (%s)", record.run_id, words, extra=extra)
    repaired = payload.get("tailRepaired")
    if repaired:
        _RUN.warning(
            "run %s: a torn end of %s bytes was cut at byte %s and kept as %s",
            record.run_id, repaired.get("bytes"), repaired.get("atByte"), repaired.get("keptAs"), extra=extra,
        )  # fmt: skip
    _started(record, payload)


def _paused(record: Record, payload: Mapping[str, Any]) -> None:
    reason = payload["outcome"]["finishReason"]
    level = logging.WARNING if reason in _NEEDS_CARE else logging.INFO
    _RUN.log(level, "run %s: leg closed, paused: %s", record.run_id, reason, extra=fields(record.run_id))


def _finished(record: Record, payload: Mapping[str, Any]) -> None:
    outcome = payload["outcome"]
    level = logging.INFO if outcome["status"] == "succeeded" else logging.WARNING
    _RUN.log(
        level, "run %s: leg closed, %s: %s", record.run_id, outcome["status"], outcome["finishReason"],
        extra=fields(record.run_id),
    )  # fmt: skip


def _leg_ended(record: Record, event: Mapping[str, Any]) -> None:
    _RUN.info("run %s: leg %s closed", record.run_id, event.get("leg"), extra=fields(record.run_id))


def _received(record: Record, event: Mapping[str, Any]) -> None:
    key = str(event.get("idempotencyKey") or event["attemptId"].partition("#")[0])
    attempt, status = int(event.get("attempt", 1)), event["status"]
    level = logging.WARNING if status == "unknown" else logging.DEBUG
    said = "its outcome is unknown" if status == "unknown" else status
    _EFFECT.log(level, "effect %s, attempt %d: %s", key, attempt, said, extra=of_key(key, attempt))


def _reviewed(record: Record, event: Mapping[str, Any]) -> None:
    key, attempt = str(event["idempotencyKey"]), int(event["attempt"])
    _EFFECT.info(
        "effect %s, attempt %d: %s, says %s (%s)", key, attempt, event["outcome"], event["source"], event["by"],
        extra=of_key(key, attempt),
    )  # fmt: skip


def _denied(record: Record, event: Mapping[str, Any]) -> None:
    _EFFECT.info("run %s: the policy denied a call", record.run_id, extra=fields(record.run_id))


def _told(record: Record, event: Mapping[str, Any]) -> None:
    if event["status"] == "succeeded":
        return
    _RUN.warning(
        "run %s: extension %s %s at %s%s", record.run_id, event["extensionId"],
        "took too long" if event["status"] == "timed_out" else "failed", event["lifecycle"],
        "; the call is denied" if event.get("denied") else "", extra=fields(record.run_id),
    )  # fmt: skip


def _commanded(record: Record, event: Mapping[str, Any]) -> None:
    _RUN.info(
        "run %s: command %s is %s", record.run_id, event.get("controlId"), event.get("state"),
        extra=fields(record.run_id),
    )  # fmt: skip


_KINDS: Final[dict[str, Callable[[Record, Mapping[str, Any]], None]]] = {
    "start": _started, "resume": _resumed, "pause": _paused, "finish": _finished,
}  # fmt: skip
_EVENTS: Final[dict[str, Callable[[Record, Mapping[str, Any]], None]]] = {
    "effect_receipt": _received, "tool_attempt": _received, "effect_review": _reviewed, "leg_ended": _leg_ended,
    "policy_denied": _denied, "control": _commanded, "extension_lifecycle": _told,
}  # fmt: skip
