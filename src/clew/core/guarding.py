"""Checkpoint records: how they are said, numbered and taken into a run state. Looks at no file."""

from typing import Any, Final

import msgspec

from clew.core.calls import CallState, Illegal
from clew.core.checkpoint import (
    BadManifest,
    Checkpoint,
    CheckpointState,
    Manifest,
    check_unkept,
    manifest_as_json,
    read_checkpoint,
    read_manifest,
)
from clew.core.events import CallFacts
from clew.core.needs import Guarded, Looked
from clew.core.records import Draft, Record
from clew.core.state import RunState

VERSION: Final = 1
NUMBER: Final = "#checkpoint"
"""Under which the highest number stands in `RunState.numbers`; no step can have this name."""

_RECEIPTS: Final = ("effect_receipt", "tool_attempt")


# What is said.


def kept(call: CallFacts, attempt: int, guarded: Guarded) -> Draft:
    """The first record of a checkpoint: how the paths stand before an attempt; its `started` is said right behind."""
    said = _said(call, attempt)
    said["reversible"] = guarded.reversible
    if guarded.whole is not None:
        said["manifest"] = msgspec.to_builtins(guarded.whole)
    else:
        said["paths"] = _listed(guarded.paths)
    if guarded.expects is not None:
        said["expects"] = _listed(guarded.expects)
    if guarded.result is not msgspec.UNSET:
        said["expectedResult"] = guarded.result
    if guarded.not_covered:
        said["notCovered"] = list(guarded.not_covered)
    return Draft("checkpoint", said)


def left(call: CallFacts, attempt: int, looked: Looked) -> Draft:
    """The second record of a checkpoint: how the attempt left the paths. Said behind what is known of the attempt."""
    said = _said(call, attempt)
    if looked.paths is not None:
        said["paths"] = _listed(looked.paths)
    said["after"] = _listed(looked.after)
    if looked.unkept:
        said["unkept"] = list(looked.unkept)
    if looked.not_covered:
        said["notCovered"] = list(looked.not_covered)
    return Draft("checkpoint", said)


def _listed(manifest: Manifest | None) -> list[dict[str, Any]]:
    return manifest_as_json(manifest or {})


def _said(call: CallFacts, attempt: int) -> dict[str, Any]:
    """The members that both records share, in the order in which they are written."""
    return {
        "version": VERSION, "checkpointId": "", "runId": call.run_id, "operationId": "", "toolCallId": call.call_id,
        "stepId": call.step_id, "idempotencyKey": call.key, "attempt": attempt, "timestamp": "", "tool": call.tool,
    }  # fmt: skip


def numbered(state: RunState, said: Draft, at: str) -> Draft:
    """A checkpoint's draft with its id, its operation and its time: a first record gets the next number."""
    step = said.payload.get("stepId", "")
    name = (state.guarded.get(step) or "") if "after" in said.payload else f"k{_last(state) + 1}"
    known = {"checkpointId": name, "operationId": state.start.get("operationId", ""), "timestamp": at}
    return Draft("checkpoint", {**said.payload, **known})


def _last(state: RunState) -> int:
    return state.numbers.get(NUMBER) or 0


# What is taken in.


def take_checkpoint(state: RunState, record: Record, position: int) -> None:
    """One checkpoint record of a run that clew began; what other programs write of theirs is not looked at."""
    if not state.own:
        return
    payload = record.payload
    call = _call_of(state, payload)
    if "after" in payload:
        _take_left(state, call, payload, position)
    else:
        _take_kept(state, call, record, position)


def _call_of(state: RunState, payload: dict[str, Any]) -> CallState:
    """The call that a checkpoint belongs to, by all of its names (I-8)."""
    step = payload.get("stepId")
    call = state.calls.get(step) if type(step) is str else None
    if call is None:
        raise Illegal(f"a checkpoint of step {step!r} without its call")
    wanted = {
        "version": VERSION, "runId": state.run_id, "operationId": state.start.get("operationId"),
        "toolCallId": call.call_id, "idempotencyKey": call.key, "tool": call.tool,
    }  # fmt: skip
    for name, value in wanted.items():
        if payload.get(name) != value or type(payload[name]) is not type(value):
            raise Illegal(f"the checkpoint of {call.key!r} says {name} {payload.get(name)!r}")
    return call


def _take_kept(state: RunState, call: CallState, record: Record, position: int) -> None:
    found = _read(record.payload)
    number = _last(state) + 1
    if found.checkpoint_id != f"k{number}":
        raise Illegal(f"checkpoint {found.checkpoint_id!r} stands where k{number} belongs")
    if state.state != "running":
        raise Illegal(f"a checkpoint while the operation is {state.state}")
    if not call.may_change_the_world or found.attempt != call.attempt + 1:
        raise Illegal(f"{found.checkpoint_id} is of attempt {found.attempt} of {call.key!r}, which cannot start")
    state.numbers.put(NUMBER, number)
    state.checkpoints.put(
        found.checkpoint_id,
        CheckpointState(
            found.checkpoint_id, call.step_id, found.attempt, record.sequence, position,
            whole=found.whole is not None, reversible=found.reversible,
        ),
    )  # fmt: skip
    state.guard = found.checkpoint_id


def _take_left(state: RunState, call: CallState, payload: dict[str, Any], position: int) -> None:
    known = checkpoint_of(state, call)
    if known is None or payload.get("checkpointId") != known.checkpoint_id or payload.get("attempt") != known.attempt:
        raise Illegal(f"checkpoint {payload.get('checkpointId')!r} is not that of the last attempt of {call.key!r}")
    if known.after:
        raise Illegal(f"how {known.checkpoint_id} was left is recorded twice")
    if call.status not in ("committed", "unknown") or state.state not in ("running", "aborting"):
        raise Illegal(f"how {known.checkpoint_id} was left is recorded before attempt {known.attempt} was over")
    try:
        check_unkept(read_manifest(payload["after"]), payload.get("unkept"))
        if known.whole:
            read_manifest(payload.get("paths"))
    except BadManifest as fault:
        raise Illegal(f"{known.checkpoint_id} cannot be read: {fault.why}") from None
    state.checkpoints.put(known.checkpoint_id, msgspec.structs.replace(known, after=position))


def _read(payload: dict[str, Any]) -> Checkpoint:
    try:
        return read_checkpoint(payload)
    except BadManifest as fault:
        raise Illegal(f"the checkpoint cannot be read: {fault.why}") from None


def check_next(state: RunState, record: Record) -> None:
    """Behind a checkpoint: in its append nothing but its start may follow; cut off there, it counts for nothing."""
    known = state.checkpoints.get(state.guard)
    assert known is not None
    if record.append == state.last_append:
        event: Any = record.payload.get("event")
        starts = type(event) is dict and event.get("type") in _RECEIPTS and event.get("status") == "started"
        attempt = event.get("attempt", 1) if starts else 0
        if not starts or (event.get("stepId"), attempt) != (known.step_id, known.attempt):
            raise Illegal(f"{known.checkpoint_id} is not followed by the start of its attempt")
        state.checkpoints.put(known.checkpoint_id, msgspec.structs.replace(known, started=True))
        state.guarded.put(known.step_id, known.checkpoint_id)
    state.guard = ""


def checkpoint_of(state: RunState, call: CallState) -> CheckpointState | None:
    """The checkpoint of a call's last attempt; None where nothing was kept for it."""
    name = state.guarded.get(call.step_id)
    known = None if name is None else state.checkpoints.get(name)
    return known if known is not None and known.attempt == call.attempt else None


def built_in(state: RunState, call: CallState) -> CheckpointState | None:
    """The checkpoint that can be asked whether a call's last attempt happened, where no probe of its own is declared.

    The files prove it of an effect that is nowhere else, and only if every path that it may touch was declared.

    Source:
        DESIGN §5, resume table.
    """
    known = checkpoint_of(state, call)
    local = call.capability is not None and call.capability.effect == "workspace"
    return known if local and known is not None and not known.whole else None


def checkpoint_rows(state: RunState) -> list[dict[str, Any]]:
    """The checkpoints of a run, all legs, in their order; what is in them stands in their records.

    One whose attempt never opened is left out: it counts for nothing. `left`: how its paths were left is recorded.
    """
    rows = []
    for known in state.checkpoints.values():
        call = state.calls.get(known.step_id)
        if call is None or not known.started:
            continue
        rows.append(
            {
                "checkpointId": known.checkpoint_id, "runId": state.run_id,
                "operationId": state.start.get("operationId"), "toolCallId": call.call_id, "stepId": known.step_id,
                "idempotencyKey": call.key, "attempt": known.attempt, "tool": call.tool,
                "reversible": known.reversible, "whole": known.whole, "left": known.after > 0,
            }
        )  # fmt: skip
    return rows
