"""Rows and effects as the runtime hands them to the views, with what a test changes of them."""

from typing import Any

from clew.views.plain import When

WHEN = When(1_795_960_800_000)
"""2026-11-29T14:00:00Z, on a clock in UTC."""

OWNER = {"number": 1, "nonce": "3f9ac1d2e4b5a697", "purpose": "run", "host": "vm", "pid": 812, "user": "ann"}


def effect(**changed: Any) -> dict[str, Any]:
    return {
        "stepId": "pay-1",
        "callId": "c1",
        "tool": "pay",
        "idempotencyKey": "k3f9x2-261129:pay-1:c1",
        "attempt": 1,
        "status": "started",
        "answered": False,
        "startedAt": "2026-11-29T13:54:02.000Z",
        "arguments": {"order": "1042", "cents": 4200},
        **changed,
    }


def row(shown: str, **changed: Any) -> dict[str, Any]:
    return {
        "runId": "k3f9x2-261129",
        "state": shown if shown in ("completed", "failed", "paused") else "running",
        "shown": shown,
        "reason": "",
        "message": "",
        "agent": "settle",
        "input": "settle orders.csv",
        "startedAt": "2026-11-29T13:50:00.000Z",
        "updatedAt": "2026-11-29T13:54:02.000Z",
        "calls": 3,
        "waiting": [],
        "waitingCount": 0,
        "leg": OWNER,
        "legClosed": shown in ("completed", "failed", "paused"),
        **changed,
    }


def waiting(*effects: dict[str, Any], count: int = 0) -> dict[str, Any]:
    return {"waiting": list(effects), "waitingCount": count or len(effects)}
