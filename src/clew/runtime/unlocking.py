"""A person's word where no proof is possible: an owner that is gone, a loss that is accepted. Always journaled."""

from typing import Any

import msgspec

from clew.core.legs import Leg
from clew.core.resume import check_ours
from clew.core.state import RunState
from clew.errors import Corrupt, Refused
from clew.runtime.ending import publish
from clew.runtime.journal import Journal
from clew.runtime.opening import HomeParts, begin_mended
from clew.runtime.recovery import Reopened, Unlock, Waiver, close_quietly, end_leg, unfinished_business
from clew.runtime.reviewing import Said
from clew.stores.base import RunStore


def unlock_run(place: HomeParts, run_id: str, unlock: Unlock) -> dict[str, Any]:
    """Close the leg of an owner that cannot be proven gone, on a person's word, with the evidence journaled.

    Raises:
        Refused: `foreign_run`; `nothing_to_unlock`; `stale_nonce` when the nonce is not the open leg's.
        Held: a writer lives.
        UsageError: `review_incomplete` when nobody or no reason is named.
    """
    said = Said(unlock.by, unlock.reason)
    unlock = msgspec.structs.replace(unlock, by=said.by, reason=said.reason)
    writer = place.store.open(run_id)
    try:
        opened = Reopened(place.store, place.clock, writer, "control")
        check_ours(opened.state)
        leg = _open_leg(opened.state, unlock)
        opened.take_over("operator", unlock)
        journal = begin_mended(place, opened, unfinished_business(opened.state))
    except BaseException:
        writer.close()
        raise
    _close(journal)
    return {"runId": run_id, "leg": leg.number, "proofs": [msgspec.to_builtins(proof) for proof in opened.proofs]}


def accept_loss_run(place: HomeParts, run_id: str, said: Said, nonce: str = "") -> dict[str, Any]:
    """Go on from what a journal still has, on a person's word, although its head says that there was more.

    `nonce` is that of the leg in which the journal now ends, when its owner cannot be proven gone.

    Returns:
        What is left: the last record, and the last one that the head named (0 when the head itself is lost).

    Raises:
        Refused: `nothing_to_accept` when nothing below the head is missing; `foreign_run`. Held: as `unlock`.
        Corrupt: the journal is damaged in another way; that is not accepted.
    """
    named = _named_by_head(place.store, run_id)
    writer = place.store.open(run_id, ignore_head=True)
    try:
        opened = Reopened(place.store, place.clock, writer, "repair")
        check_ours(opened.state)
        left = opened.state.sequence
        if named is not None and left >= named:
            raise _nothing_lost(run_id, left, named)
        opened.take_over("operator", Unlock(nonce, said.by, said.reason) if nonce else None)
        waiver = Waiver("loss", said.by, said.reason, kept_sequence=left, head_sequence=named or 0)
        journal = begin_mended(place, opened, unfinished_business(opened.state), waiver=waiver)
    except BaseException:
        writer.close()
        raise
    _close(journal)
    return {"runId": run_id, "keptSequence": left, "headSequence": named or 0}


def _named_by_head(store: RunStore, run_id: str) -> int | None:
    """The record that the head names; None when the head is there and cannot be read, 0 when there is none."""
    try:
        head = store.head(run_id)
    except Corrupt:
        return None
    return 0 if head is None else head.sequence


def _close(journal: Journal) -> None:
    try:
        close_quietly(journal)
        publish(journal)
    finally:
        end_leg(journal)


def _open_leg(state: RunState, unlock: Unlock) -> Leg:
    leg = state.unclosed_leg
    if leg is None:
        raise Refused(
            f"run {state.run_id!r} has no open leg",
            code="nothing_to_unlock",
            next=f"Nothing holds it: look at it with `clew show {state.run_id}`, which names the next step.",
            run=state.run_id,
        )
    if leg.nonce != unlock.nonce:
        raise Refused(
            f"the open leg of run {state.run_id!r} has nonce {leg.nonce!r}, not {unlock.nonce!r}",
            code="stale_nonce",
            next="Look at the owner again before you decide: it is another one.",
            run=state.run_id,
            nonce=leg.nonce,
        )
    return leg


def _nothing_lost(run_id: str, left: int, named: int) -> Refused:
    return Refused(
        f"run {run_id!r} has {left} records; its head names record {named}: nothing below the head is missing",
        code="nothing_to_accept",
        next=f"See what is wrong with `clew verify {run_id}`; other damage is not accepted, restore a copy.",
        run=run_id,
    )
