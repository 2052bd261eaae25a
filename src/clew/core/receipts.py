"""What is known of each attempt of a call: receipts and their order. Knows no journal, nor what they are bound to."""

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


def may_follow(status: str, following: str) -> bool:
    """May a receipt with status `following` stand after one with `status` (empty: none yet) under the same key?"""
    return following in _MAY_FOLLOW[status]
