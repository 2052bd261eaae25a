"""What is known of each attempt of a call: receipts, their order, and what they are bound to. Knows no journal."""

from typing import Any, Final, Literal

import msgspec

ReceiptStatus = Literal["not_started", "started", "committed", "unknown"]

_MAY_FOLLOW: Final[dict[str, tuple[str, ...]]] = {
    "": ("not_started", "started"),
    "not_started": (),
    "started": ("committed", "unknown"),
    "committed": (),
    "unknown": (),
}


class EffectReceipt(msgspec.Struct, frozen=True, rename="camel"):
    """What is known of one attempt, as the snapshot shows it.

    `attempt` counts from 1, 0 when nothing was started; `review` is the settlement of an open attempt, if any.

    Source:
        contract §2.4, #110 to #118; DESIGN §2.
    """

    idempotency_key: str
    tool: str
    attempt: int
    status: ReceiptStatus
    review: dict[str, Any] | None = None


class Binding(msgspec.Struct, frozen=True, rename="camel"):
    """What a receipt is bound to, so that it can never speak for another call (version 1)."""

    version: Literal[1]
    run_id: str
    turn_id: str
    agent: str
    step_id: str
    call_id: str
    tool: str
    arguments_fingerprint: str
    capability_fingerprint: str


def may_follow(status: str, following: str) -> bool:
    """May a receipt with status `following` stand after one with `status` (empty: none yet) under the same key?"""
    return following in _MAY_FOLLOW[status]
