"""The order of receipts under one key, and how they are shown."""

from itertools import product
from typing import get_args

import msgspec
import pytest

from clew.core.receipts import EffectReceipt, ReceiptStatus, may_follow

STATUSES = get_args(ReceiptStatus)


def test_the_legal_chains_are_these() -> None:
    """Contract #113, #114: not_started alone; started, then committed or unknown once; nothing else."""
    legal = {(before, after) for before, after in product(("", *STATUSES), STATUSES) if may_follow(before, after)}

    assert {("", "not_started"), ("", "started"), ("started", "committed"), ("started", "unknown")} == legal


@pytest.mark.parametrize("status", ["", *STATUSES])
def test_a_stranger_s_status_follows_nothing(status: str) -> None:
    """Contract #114: an unknown word in a journal is no receipt."""
    assert not may_follow(status, "settled")


def test_a_receipt_is_shown_in_camel_case() -> None:
    """DESIGN §2: JSON is camelCase; the snapshot shows receipts as they are."""
    shown = msgspec.to_builtins(EffectReceipt("r1:pay-1:c1", "pay", 1, "unknown"))

    assert {
        "idempotencyKey": "r1:pay-1:c1",
        "tool": "pay",
        "attempt": 1,
        "status": "unknown",
        "review": None,
    } == shown
