"""A run as a row: its state in words, what it waits for, and what to do next."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from clew.views.advice import RESULT_HINT, STATES, is_settled, next_steps, reason_text
from clew.views.approvals import approval_lines
from clew.views.effects import waiting_lines
from clew.views.plain import When, count_text, one_line, size_text

Row = Mapping[str, Any]

SHORTEST = 3
LIVING = ("accepted", "running", "stopped", "aborting")


def short_names(ids: Collection[str]) -> dict[str, str]:
    """For each run the fewest characters, three at least, by which it is found as the only one."""
    folded = sorted((run_id.casefold(), run_id) for run_id in ids)
    names = {}
    for index, (text, run_id) in enumerate(folded):
        near = [folded[other][0] for other in (index - 1, index + 1) if 0 <= other < len(folded)]
        shared = max((_shared(text, other) for other in near), default=0)
        names[run_id] = run_id[: max(SHORTEST, shared + 1)]
    return names


def _shared(one: str, other: str) -> int:
    """How many characters two texts have in common from the beginning."""
    pairs = zip(one, other, strict=False)
    return next((index for index, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


def label(row: Row) -> str:
    """The state as the first word of a row; never only a colour."""
    return str(row["shown"]).replace("_", " ").upper()


def block(row: Row, run: str, when: When, widths: tuple[int, int] = (0, 0)) -> list[str]:
    """A run in a few lines: headline, what is uncertain, what to do next.

    Args:
        row: A row of `Home.runs()`.
        run: The run as it is typed in the advice.
        when: How times are shown.
        widths: Of the columns for state and id.
    """
    asked = one_line(str(row.get("input", "")), 60)
    asked = " ".join(part for part in (asked, f"(child of {row['parent']})" if row.get("parent") else "") if part)
    state, run_id = label(row).ljust(widths[0]), str(row["runId"]).ljust(widths[1])
    head = "  ".join(part for part in (state, run_id, asked) if part)
    lines = [f"{head}   {standing(row, when)}".rstrip()]
    lines += [f"  {line}" for line in _why(row, when)]
    how = "under way" if row["shown"] in LIVING else "uncertain"
    lines += [f"  {line}" for line in waiting_lines(row.get("waiting") or [], row.get("waitingCount", 0), when, how)]
    lines += [f"  {line}" for line in approval_lines(row, when)]
    begun = row.get("restoring")
    if begun:
        told = f"{begun['restoreId']} of {begun['checkpointId']} was cut off"
        lines.append(f"  {told}; its files may be half put back")
    unread = int(row.get("unreadBytes", 0))
    if unread:
        lines.append(f"  {size_text(unread)} of its journal were not read for this list; clew show {run} reads them")
    steps = next_steps(row, run)
    words = ["next:", *("     " if step == RESULT_HINT else "or:  " for step in steps[1:])]
    return lines + [f"  {word} {step}" for word, step in zip(words, steps, strict=False)]


def _why(row: Row, when: When) -> list[str]:
    """The words of its end or its pause; of a leg that died without calling the agent also what it is paused for."""
    message, shown = one_line(str(row.get("message", "")), 300), row["shown"]
    since = row.get("pausedAt", row.get("updatedAt"))
    if shown in ("paused", "failed"):
        # Who put files back or settled something since is not who met that.
        earlier = "" if since == row.get("updatedAt") else "when it paused: "
        return [f"{earlier}{message}"] if message else []
    if "pausedAt" not in row:
        return []
    waits = _nobody(row) or reason_text(str(row.get("reason") or STATES["paused"]))
    return [f"paused since {when.minute(str(since))}: {waits}", *([message] if message else [])]


def _nobody(row: Row) -> str:
    """That a paused run waits for nobody, where what it paused for was decided or settled since; empty otherwise."""
    if row.get("reason") == "approval_required" and not row.get("wanted"):
        return "nobody is waited for: the approval was decided, or lapsed (approval_required)"
    return f"nobody is waited for: no effect is in doubt now ({row['reason']})" if is_settled(row) else ""


def standing(row: Row, when: When) -> str:
    """Where a run stands, in words."""
    shown = row["shown"]
    if shown == "unreadable":
        return one_line(str(row.get("message", STATES[shown])), 300)
    since = when.minute(str(row.get("updatedAt", "")))
    calls = count_text(row.get("calls", 0), "call")
    if shown == "completed":
        return f"{calls}, done {since}"
    if shown == "foreign":
        return f"{STATES[shown]}{_their_last_word(row)}; {calls}, last record {since}"
    if shown in ("paused", "failed"):
        since = when.minute(str(row.get("pausedAt", row.get("updatedAt", ""))))
        nobody = _nobody(row) if shown == "paused" else ""
        waits = f"{nobody}, paused" if nobody else f"{reason_text(str(row.get('reason') or STATES[shown]))},"
        return f"{waits} since {since}"
    leg = row.get("leg")
    if leg is None:
        return f"{STATES.get(shown, shown)}, {calls}"
    writer = f"pid {leg.get('pid')} on {one_line(str(leg.get('host')))}"
    if shown == "interrupted":
        return f"nobody runs it since {since}" if row.get("legClosed") else f"writer {writer} gone since {since}"
    if shown in ("stopped", "owner_elsewhere"):
        return f"writer {writer}: {STATES[shown]}; last record {since}"
    return f"{writer}, {calls}, last record {since}"


def _their_last_word(row: Row) -> str:
    """What a journal of another program says of the run's end, as it says it; nothing is concluded from it."""
    told, reason = str(row.get("foreign", "")), one_line(str(row.get("reason", "")))
    if not told:
        return " and did not record how it stands"
    return f" and recorded: {told} ({reason})" if reason else f" and recorded: {told}"


def blocks(rows: Sequence[Row], when: When) -> list[str]:
    """All runs, one block below the other, states and ids in columns."""
    names = short_names([str(row["runId"]) for row in rows])
    widths = max(len(label(row)) for row in rows), max(len(row["runId"]) for row in rows)
    return [line for row in rows for line in block(row, names[row["runId"]], when, widths)]
