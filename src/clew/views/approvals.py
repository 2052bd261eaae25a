"""Approvals in words: what waits for a yes or a no, what was allowed and did not start, what was decided and why."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from clew.core.ids import call_uuid
from clew.views.effects import call_text
from clew.views.plain import When, count_text, one_line

Approval = Mapping[str, Any]

_STANDING: Final = {
    "pending": "waits for a yes or a no",
    "granted": "approved, never started",
    "used": "approved, started",
    "denied": "denied",
    "expired": "lapsed",
    "invalidated": "not asked for any more",
    "replaced": "lapsed, asked for anew",
}


def approval_lines(row: Mapping[str, Any], when: When) -> list[str]:
    """What of a run waits for an approval, and what has one and did not start; in one line each."""
    rows = row.get("approvals") or []
    wanted, allowed = int(row.get("wanted", 0)), int(row.get("allowed", 0))
    lines = [f"  {each['stepId']}  {call_text(each)} ({_short(each, when)})" for each in rows]
    heads = [count_text(wanted, "approval") + " wanted" if wanted else ""]
    heads.append(count_text(allowed, "call") + " approved, never started" if allowed else "")
    more = [f"  … and {wanted + allowed - len(rows)} more"] if wanted + allowed > len(rows) else []
    return [f"{', '.join(filter(None, heads))}:", *lines, *more] if rows else []


def _short(found: Approval, when: When) -> str:
    """When it was asked for and why, or who allowed it."""
    if found["standing"] == "granted":
        until = f", until {when.second(found['until'])}" if "until" in found else ""
        return f"approved by {one_line(found['by'])}: {one_line(found['reason'], 200)}{until}"
    why = f", {one_line(found['why'], 200)}" if "why" in found else ""
    until = f", until {when.second(found['expiresAt'])}" if "expiresAt" in found else ""
    return f"{found['risk']} risk, asked {when.second(found['askedAt'])}{why}{until}"


def decision_lines(approvals: Iterable[Approval], when: When) -> list[str]:
    """Every approval of a run, one line each, with who decided and why: for the page of a run."""
    return [f"{found['stepId']}: {stands(found, when)}" for found in approvals]


def stands(found: Approval, when: When) -> str:
    """How an approval stands, by whom and for what reason."""
    said = _STANDING.get(found["standing"], str(found["standing"]))
    if "by" not in found:
        return said
    return f"{said}; by {one_line(found['by'])} at {when.second(found['decidedAt'])}: {one_line(found['reason'], 500)}"


def question_lines(asked: Approval, when: When) -> list[str]:
    """What a person must know before saying yes or no: the call, what it may do, its key, why it is asked for."""
    effect, key = asked["effect"], asked["idempotencyKey"]
    touched = [one_line(text, 300) for text in (*effect["paths"], *effect["urls"])]
    marks = [asked["risk"] + " risk", *([] if effect["reversible"] else ["cannot be undone"])]
    marks += [] if effect["declared"] else ["undeclared"]
    lines = [
        f"approval   {asked['approvalId']} of {asked['stepId']}",
        f"call       {call_text(asked, 2000)}",
        f"effect     {', '.join([*effect['operations'], *marks])}",
        f"key        {key}   as a UUID {call_uuid(key)}",
    ]
    lines += [f"touches    {', '.join(touched)}"] if touched else []
    lines += [f"asked      {when.second(asked['askedAt'])}"] if asked.get("askedAt") else []
    lines += [f"why        {one_line(asked['why'], 500)}"] if asked.get("why") else []
    return lines + ([f"lapses     {when.second(asked['expiresAt'])}"] if asked.get("expiresAt") else [])
