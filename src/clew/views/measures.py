"""What a run used, under which limits it stands, and what checks found, in words. Sums and verdicts are `core`'s."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clew.core.budget import RunBudget
from clew.errors import UsageError
from clew.views.plain import count_text, duration_text, one_line

Facts = Mapping[str, Any]

FLAGS: Final = {
    "toolCalls": "--max-calls N",
    "toolFailures": "--max-failures N",
    "turns": "--max-turns N",
    "steps": "--max-steps N",
    "retries": "--max-retries N",
    "tokens": "--max-tokens N",
    "costUsd": "--max-cost USD",
    "activeTime": "--timeout SECONDS",
}
"""What is counted, and the option of the command that brings a new limit of it."""


def limit_reached(row: Facts) -> str:
    """What the limit counts at which a run paused: the second word of its message; empty when it is no such word."""
    words = str(row.get("message", "")).split()
    return words[1] if len(words) > 1 and words[0] == "limit" and words[1] in FLAGS else ""


def usage_text(metrics: Facts) -> list[str]:
    """Tokens and cost: at least so much, where some turns were not measured; nothing of cost if nobody reported any."""
    if not metrics.get("turns"):
        return []
    tokens, cost = metrics.get("tokens"), metrics.get("costUsd")
    asked = metrics.get("requests") or metrics["turns"]
    no_tokens, no_cost = (
        metrics.get(name, metrics.get("unmeasuredTurns", 0)) for name in ("unmeasuredTokens", "unmeasuredCosts")
    )
    parts = ["tokens not reported" if tokens is None else _at_least(f"{tokens:,} tokens", no_tokens, asked)]
    if cost is not None:
        parts.append(_at_least(f"${cost:,.2f}" if cost >= 0.01 or not cost else f"${cost:.6f}", no_cost, asked))
    repeats = metrics.get("repeatedMessages")
    if repeats:
        parts.append(f"{count_text(repeats, 'repeated report')} not counted again")
    return parts


def _at_least(amount: str, unmeasured: int, asked: int) -> str:
    if not unmeasured:
        return amount
    return f"at least {amount} ({unmeasured} of {count_text(asked, 'turn')} unmeasured)"


def limits_text(limits: Facts) -> str:
    """The limits in force, as a person says them; empty when there are none or another program wrote them."""
    try:
        budget = RunBudget.from_json(limits)
    except UsageError:
        return ""
    counted = (
        (budget.max_calls, "call"), (budget.max_tool_failures, "error answer"), (budget.max_turns, "turn"),
        (budget.max_steps, "step"), (budget.max_retries, "further attempt"), (budget.max_tokens, "token"),
    )  # fmt: skip
    parts = [f"{limit:,} {noun}{'' if limit == 1 else 's'}" for limit, noun in counted if limit is not None]
    if budget.max_cost_usd is not None:
        parts.append(f"${budget.max_cost_usd:,.2f}")
    if budget.run_timeout_s is not None:
        parts.append(f"{duration_text(round(budget.run_timeout_s * 1000))} of running")
    if budget.on_unmeasured == "continue" and (budget.max_tokens is not None or budget.max_cost_usd is not None):
        parts.append("whatever is not measured")
    return "at most " + ", ".join(parts) if parts else ""


def check_lines(checks: Sequence[Facts], readiness: Facts) -> list[str]:
    """What each check found, with its evidence, and whether the run is ready for release; none if there was none."""
    lines = []
    for check in checks:
        verdict = "passed" if check["passed"] else "NOT PASSED"
        score = "" if check.get("score") is None else f", {check['score']}"
        reason = f": {one_line(str(check['reason']), 300)}" if check.get("reason") else ""
        lines.append(f"{one_line(str(check['id']))}: {verdict}{score}{reason}")
        lines += [f"  evidence: {one_line(str(item), 300)}" for item in check.get("evidence", ())]
        lines += [f"  finding: {one_line(str(item), 300)}" for item in check.get("findings", ())]
    if lines:
        lines += _ready_lines(readiness)
    return lines


def _ready_lines(readiness: Facts) -> list[str]:
    blockers = [one_line(str(blocker), 300) for blocker in readiness.get("blockers", ())]
    warnings = [f"warning: {one_line(str(warning), 300)}" for warning in readiness.get("warnings", ())]
    return ["ready for release" if readiness.get("ready") else f"not ready: {'; '.join(blockers)}", *warnings]
