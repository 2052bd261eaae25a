"""The row of a published head: may lists go by it? What stands in one is said by `ending.row`, not here."""

from typing import Annotated, Any

import msgspec

from clew.core.records import Head


class _Effect(msgspec.Struct, rename="camel"):
    step_id: str
    call_id: str
    tool: str
    idempotency_key: str
    attempt: int
    status: str
    answered: bool
    repeatable: bool
    position: Annotated[int, msgspec.Meta(ge=0)]
    started_at: str = ""


class _Approval(msgspec.Struct, rename="camel"):
    approval_id: str
    step_id: str
    call_id: str
    tool: str
    idempotency_key: str
    standing: str
    risk: str
    asked_at: str
    position: Annotated[int, msgspec.Meta(ge=0)]
    why: str = ""
    expires_at: str = ""
    by: str = ""
    reason: str = ""
    until: str = ""


class _Row(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    state: str
    reason: str
    message: str
    agent: str
    input: str
    started_at: str
    updated_at: str
    calls: int
    waiting: list[_Effect]
    waiting_count: int
    leg: dict[str, Any] | None
    leg_closed: bool
    foreign: str = ""
    paused_at: str = ""
    restoring: dict[str, Any] | None = None
    lost: list[str] = []
    approvals: list[_Approval] = []
    wanted: int = 0
    allowed: int = 0
    parent: str = ""
    child: dict[str, Any] | None = None


def row_of(head: Head | None) -> dict[str, Any] | None:
    """The row of a head, or None where it has none of this shape: then the journal says what it would.

    A head is no more than a shortcut. One that was damaged, or written by another version, must not keep a whole list
    from being shown.
    """
    if head is None:
        return None
    try:
        msgspec.convert(head.row, _Row)
    except msgspec.ValidationError:
        return None
    return head.row


def says_why(row: dict[str, Any]) -> bool:
    """Does the row of a paused run say why? One of an older clew did not, behind a leg that ran no agent."""
    return row["state"] != "paused" or "pausedAt" in row or (row["leg"] or {}).get("purpose") in (None, "run", "resume")
