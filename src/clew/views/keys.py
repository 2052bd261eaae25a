"""Business keys in words: who has one and what to do about it, and what building their index anew came to."""

from collections.abc import Mapping
from typing import Any, Final

from clew.views.plain import When, count_text, one_line, value_text

WORDS: Final = {
    "starting": "about to start",
    "open": "started, no answer",
    "committed": "happened",
    "happened": "settled as happened",
    "given_up": "given up, outcome unknown",
    "unreadable": "claimed; its journal does not say what became of it",
}
_ANSWER_CHARS: Final = 400


def holder_lines(row: Mapping[str, Any], when: When) -> list[str]:
    """The call that has a key: what it is, how it stands, its answer, the next step."""
    since = row.get("startedAt", row["claimedAt"])
    lines = [
        f"{row['tool']} {one_line(row['businessKey'])}: {WORDS.get(row['state'], row['state'])}",
        f"  run {row['run']}, step {row['step']}, attempt {row['attempt']}, since {when.second(since)}",
    ]
    answer = row.get("answer")
    if answer is not None:
        error = answer["error"]
        told = value_text(answer["value"], _ANSWER_CHARS) if error is None else f"error: {one_line(error['message'])}"
        lines.append(f"  answer: {told}")
    return [*lines, f"  next: {next_step(row)}"]


def next_step(row: Mapping[str, Any]) -> str:
    """One command or decision."""
    run = row["run"]
    if row["state"] == "open":
        return f"clew show {run} --effects; wait for it, or `clew resume {run}`, or `clew settle {run} {row['call']} …`"
    if row["state"] == "starting":
        return f"wait for it; clew show {run}"
    if row["state"] == "unreadable":
        return f"clew verify {run}; restore its journal from a copy"
    return f"clew show {run} --effects"


def rebuilt_lines(report: Mapping[str, Any]) -> list[str]:
    """What was read and found."""
    counts = report["counts"]
    read, held = count_text(report["runs"], "run"), count_text(report["held"], "key")
    lines = [f"{read} read: {held} held, {counts.get('added', 0)} added to the index"]
    lines += [f"  added: {one['tool']} {one_line(one['key'])} of run {one['run']}" for one in report["added"]]
    for one in report["conflicts"]:
        lines.append(f"  held twice: {one['tool']} {one_line(one['key'])} by {one['run']} and {one['other']['run']}")
    for one in report["unreadable"]:
        lines.append(f"  cannot be judged: run {one['run']} ({one['code']}: {one_line(one['message'])})")
    if not report["complete"]:
        lines.append(
            "  next: mend or restore these journals (`clew verify`), then do it again; until then no call with"
        )
        lines.append("  a business key starts where the index is missing")
    return lines
