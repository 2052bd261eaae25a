"""What a state, a reason or a decision means, and what to do next, in words. Every door prints these."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from clew.views.measures import FLAGS, limit_reached

STATES: Final = {
    "accepted": "it is about to start",
    "running": "it is running",
    "stopped": "its process is stopped",
    "interrupted": "its process is gone",
    "owner_elsewhere": "whether its process still lives cannot be told from here",
    "paused": "it is paused",
    "aborting": "it is being aborted",
    "completed": "it is done",
    "failed": "it has failed",
    "unreadable": "its journal cannot be read",
    "foreign": "another program began it",
}


class Advice(msgspec.Struct, frozen=True):
    """What a reason means, and what to do next; `{run}` stands for the run as it is typed."""

    what: str
    next: str


_SETTLE: Final = "clew settle {run} happened|did-not-happen --by … --reason …"
_TELL: Final = "clew settle {run} happened --result JSON --by … --reason …"
RESULT_HINT: Final = "(happened: add --result JSON if you know what it returned)"
_RESUME: Final = "clew resume {run}"

REASONS: Final = {
    "budget_exceeded": Advice("a limit is reached", "clew resume {run} --max-calls N"),
    "run_timeout": Advice("its time is used up", "clew resume {run} --timeout SECONDS"),
    "budget_not_enforceable": Advice(
        "a limit cannot be kept: what a turn used was not reported", "clew resume {run} --on-unmeasured continue"
    ),
    "approval_required": Advice("a call waits for an approval", _RESUME),
    "tool_approval_denied": Advice("a person said no to a call", _RESUME),
    "approval_tool_missing": Advice(
        "a tool that an approval is for is not offered any more", "declare it with the agent, then clew resume {run}"
    ),
    "unknown_effect": Advice("an effect needs a person: nobody can tell whether it happened", _SETTLE),
    "committed_effect_pending": Advice("an effect happened, but what it returned is not recorded", _TELL),
    "result_not_kept": Advice("an effect happened, but what it returned could not be kept", _TELL),
    "result_missing": Advice(
        "the bytes of a recorded answer are missing or damaged",
        "clew verify {run}  names them; bring them back from a copy, then clew resume {run}",
    ),
    "secret_answer_lost": Advice(
        "a secret answer was lost with its process", "clew settle {run} CALL happened --by … --reason …"
    ),
    "process_alive": Advice("a process of an effect still lives", "wait for it or end it, then clew resume {run}"),
    "checkpoint_failed": Advice(
        "how files stand before a call could not be kept, so the call did not start",
        "make room or mend the file that the message names, then clew resume {run}",
    ),
    "session_failed": Advice(
        "what the agent said could not be kept in its session",
        "make room, or see to it that no other program writes that session, then clew resume {run}",
    ),
    "agent_error": Advice("the agent raised", "mend the agent, then clew resume {run}"),
    "crash_loop": Advice(
        "three legs in a row died without a new answer", "find out why (clew show {run} --log), then clew resume {run}"
    ),
    "loop_exhausted": Advice(
        "its loop used up its rounds without a check that passed; it does not go on",
        "clew show {run} --log  tells what the checks said; then clew abort {run}, and start a new run",
    ),
    "loop_no_progress": Advice(
        "its loop did the same again and again",
        "find out why (clew show {run} --log), then clew resume {run}  to have it checked once more",
    ),
    "resume_divergence": Advice(
        "the agent did not do again what is recorded",
        "make it do the same again in the same places, then clew resume {run}",
    ),
    "pause_requested": Advice("on request", _RESUME),
    "interrupted": Advice("by Ctrl-C", _RESUME),
    "terminated": Advice("by SIGTERM", _RESUME),
    "process_interrupted": Advice("its process was interrupted", _RESUME),
    "child_paused": Advice("a child run waits", _RESUME),
    "child_held": Advice("a child run is held by another process", _RESUME),
    "child_run_unavailable": Advice("a child run cannot go on", "clew show {run}  names it and says why"),
    "child_run_not_quiescent": Advice(
        "a child run was told to end and did not", "see that it ends (clew ls), then clew resume {run}"
    ),
    "delegation_conflict": Advice(
        "the agent did not delegate again what is recorded",
        "make it ask for the same child again, then clew resume {run}",
    ),
    "effect_given_up": Advice("an effect was given up", ""),
    "aborted": Advice("it was aborted", ""),
}

DECISIONS: Final = {
    "skip": "its recorded answer is told again",
    "run": "it starts",
    "rerun": "it starts again under the same key, which the other side remembers",
    "probe": "the tool's probe is asked first",
    "review": "it waits for a person",
    "wait": "it waits",
    "fail": "the run ends",
}

WHY: Final = {
    "step_stable": "answered",
    "turn_without_answer": "asked, never answered",
    "not_started": "recorded, never started",
    "settled_happened": "settled: happened",
    "settled_did_not_happen": "settled: did not happen",
    "probe_declared": "started, no answer",
    "checkpoint_stands": "started, no answer; its files say whether it happened",
    "idempotent": "started, no answer; it may be repeated",
    "tool_missing": "started, no answer; the agent does not offer this tool: declare it, @clew.agent(tools=[…])",
    "unknown_effect": "started, no answer",
    "committed_effect_pending": "it happened; what it returned is not recorded",
    "result_missing": "answered, but the bytes of the answer are missing or damaged",
    "secret_answer_lost": "it happened; its secret answer was not kept",
    "approval_required": "an approval is wanted",
    "approved": "approved, never started",
    "approval_expired": "its approval lapsed; a person is asked anew",
    "approval_tool_missing": "the agent does not offer this tool; declare it, @clew.agent(tools=[…])",
    "process_alive": "a process of it still lives",
    "effect_given_up": "given up",
    "child_unfinished": "a child run that the agent did not hear the end of",
}


def reason_text(reason: str) -> str:
    """A reason in words, with its code; an unknown one (another program's) is the code itself."""
    known = REASONS.get(reason)
    return f"{known.what} ({reason})" if known is not None else reason


def next_steps(row: Mapping[str, Any], run: str) -> list[str]:
    """What can be done about a run now, the best first; empty when nothing has to be.

    Args:
        row: A row of `Home.runs()`.
        run: The run as it is typed.
    """
    shown = row["shown"]
    if shown == "unreadable":
        return [f"clew verify {run}"]
    if shown == "foreign":
        return [] if row.get("foreign") == "finished" else ["continue it with the program that began it"]
    if shown in ("stopped", "owner_elsewhere"):
        return _about_the_owner(row, run)
    if row.get("restoring"):
        return _restoring(row, run)
    if shown == "failed":
        return _settling(row, run)
    if shown not in ("interrupted", "paused"):
        return []
    asked = wanted_steps(row, run) if row.get("wanted") else []
    # What still lives may still happen: nothing of it can be settled yet.
    reason, paused = str(row.get("reason", "")), is_paused(row)
    if row.get("waitingCount") and not (paused and reason == "process_alive"):
        again = f"clew resume {run}  asks its probe or repeats it, where declared so"
        return [*_settling(row, run), again, *_result_hint(row), *asked]
    if asked:
        return asked
    child = row.get("child")
    if paused and reason == "child_paused" and child:
        return _through_the_child(child, run)
    dimension = limit_reached(row) if paused and reason == "budget_exceeded" else ""
    if dimension:
        return [f"clew resume {run} {FLAGS[dimension]}"]
    known = REASONS.get(reason) if paused and not is_settled(row) else None
    return [(known.next if known is not None else _RESUME).format(run=run)]


def is_paused(row: Mapping[str, Any]) -> bool:
    """Does it wait? Also one that is shown as interrupted: a leg has died then in which no agent was called."""
    return row["shown"] == "paused" or (row["shown"] == "interrupted" and row.get("state") == "paused")


def is_settled(row: Mapping[str, Any]) -> bool:
    """Did it pause for an effect, and is none in doubt any more?"""
    if row.get("reason") == "secret_answer_lost":
        return row.get("lost") == []
    doubts = ("unknown_effect", "committed_effect_pending", "result_not_kept", "process_alive")
    return row.get("reason") in doubts and not row.get("waitingCount")


def _restoring(row: Mapping[str, Any], run: str) -> list[str]:
    """First the restore that was cut off is gone on with: until then the run does not go on."""
    begun, shown = row["restoring"], row["shown"]
    if shown not in ("interrupted", "paused", "failed", "completed"):
        return []
    first = f"clew restore {run} {begun['checkpointId']}{' --later' if begun['later'] else ''}"
    asked = wanted_steps(row, run) if row.get("wanted") and shown in ("interrupted", "paused") else []
    return [first, *_settling(row, run), *asked]


def _through_the_child(child: Mapping[str, Any], run: str) -> list[str]:
    """First what the child waits for, as its own reason asks; its parent takes it along then."""
    name, reason = str(child.get("runId")), str(child.get("reason"))
    again = f"clew resume {run}"
    if reason == "approval_required":
        decide = [f"clew {word} {name} --by … --reason …" for word in ("approve", "deny")]
        return [*decide, f"{again}  once that is done"]
    dimension = limit_reached(child) if reason == "budget_exceeded" else ""
    known = REASONS.get(reason)
    first = (known.next if known is not None else _RESUME).format(run=name)
    if dimension:
        first = f"clew resume {name} {FLAGS[dimension]}"
    return [again] if first == _RESUME.format(run=name) else [first, f"{again}  once that is done"]


def wanted_steps(row: Mapping[str, Any], run: str) -> list[str]:
    """How the first approval that is wanted is given, or refused."""
    first = row["approvals"][0]
    if first["standing"] == "expired":
        return [_RESUME.format(run=run) + "  asks for it anew"]
    named = f"{run} {first['stepId']}" if row["wanted"] > 1 else run
    return [f"clew {word} {named} --by … --reason …" for word in ("approve", "deny")]


def _about_the_owner(row: Mapping[str, Any], run: str) -> list[str]:
    leg = row.get("leg") or {}
    pid, host, nonce = leg.get("pid"), leg.get("host"), leg.get("nonce")
    if row["shown"] == "stopped":
        return [f"let process {pid} go on (kill -CONT {pid}) or end it"]
    look = f"look on {host} whether process {pid} still lives"
    return [f"{look}; once it is gone: clew unlock {run} --nonce {nonce} --by … --reason …"]


def _settling(row: Mapping[str, Any], run: str) -> list[str]:
    waiting = row.get("waiting") or []
    if not waiting:
        return []
    first = waiting[0]
    named = f"{run} {first['stepId']}" if row.get("waitingCount", 1) > 1 else run
    return [(_TELL if first["status"] == "committed" else _SETTLE).format(run=named)]


def _result_hint(row: Mapping[str, Any]) -> list[str]:
    first = next(iter(row.get("waiting") or []), None)
    return [RESULT_HINT] if first is not None and first["status"] != "committed" else []


def plan_lines(plan: Mapping[str, Any]) -> list[str]:
    """A resume plan, one line a step: what would happen to it, and why."""
    steps = plan["steps"]
    if not steps:
        return ["nothing is recorded yet: the agent starts from the top"]
    width = max(len(step["stepId"]) for step in steps)
    lines = []
    for step in steps:
        why = WHY.get(step["reason"], step["reason"])
        detail = f" ({step['detail']})" if step.get("detail") else ""
        lines.append(f"{step['stepId']:<{width}}  {step['decision']:<6}  {DECISIONS[step['decision']]}: {why}{detail}")
    return lines
