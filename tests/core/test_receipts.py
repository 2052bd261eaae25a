"""The order of receipts under one key, and what they are bound to."""

from itertools import product
from typing import Any, get_args

import msgspec
import pytest

from clew.core.receipts import Binding, EffectReceipt, ReceiptStatus, may_follow

STATUSES = get_args(ReceiptStatus)
BOUND = {
    "version": 1,
    "runId": "r1",
    "turnId": "turn-1",
    "agent": "main",
    "stepId": "pay-1",
    "callId": "c1",
    "tool": "pay",
    "argumentsFingerprint": "a" * 64,
    "capabilityFingerprint": "b" * 64,
}


def test_the_legal_chains_are_these() -> None:
    """Contract #113, #114: not_started alone; started, then committed or unknown once; nothing else."""
    legal = {(before, after) for before, after in product(("", *STATUSES), STATUSES) if may_follow(before, after)}

    assert {("", "not_started"), ("", "started"), ("started", "committed"), ("started", "unknown")} == legal


@pytest.mark.parametrize("status", ["", *STATUSES])
def test_a_stranger_s_status_follows_nothing(status: str) -> None:
    """Contract #114: an unknown word in a journal is no receipt."""
    assert not may_follow(status, "settled")


def test_a_binding_reads_as_it_is_written() -> None:
    """Contract §2.4: the members of version 1, no more and no less."""
    binding = msgspec.convert(BOUND, Binding)

    assert msgspec.to_builtins(binding) == BOUND


@pytest.mark.parametrize("name", BOUND)
def test_a_binding_without_a_member_is_none(name: str) -> None:
    """Contract #115: a receipt that does not say what it is bound to could speak for any call."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({key: value for key, value in BOUND.items() if key != name}, Binding)


@pytest.mark.parametrize(("name", "value"), [("version", 2), ("version", True), ("runId", None), ("tool", 1)])
def test_a_binding_of_another_kind_is_none(name: str, value: Any) -> None:
    """Contract #115: another version, or a member of another type, is not guessed at."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**BOUND, name: value}, Binding)


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
