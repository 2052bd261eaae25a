"""Checks of a run's work that really ran, and what follows from them for its release. Nothing is scored by itself."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final

import msgspec

from clew.core.answers import json_text
from clew.core.calls import Illegal
from clew.core.state import CheckState, RunState
from clew.errors import UsageError

TEXT_CHARS: Final = 300
EVIDENCE: Final = 20
TOOLS: Final = 5
_REVERSIBLE: Final = ("none", "workspace")


class Check(msgspec.Struct, frozen=True):
    """What a check found. `clew.Check(True)` is all that a check has to return; so is True itself.

    Attributes:
        passed: Whether what was looked at is as it should be.
        score: How good it is, in the check's own measure.
        reason: Why, in a sentence.
        evidence: What it rests on: texts or other JSON.
        findings: Security findings that are open; each keeps the run from being ready, whatever else passed.
    """

    passed: bool
    score: int | float | None = None
    reason: str = ""
    evidence: Sequence[Any] = ()
    findings: Sequence[str] = ()

    def __post_init__(self) -> None:
        if type(self.passed) is not bool:
            raise _odd("passed", self.passed, "True or False")
        if self.score is not None and (type(self.score) not in (int, float) or not isfinite(self.score)):
            raise _odd("score", self.score, "a number")
        if type(self.reason) is not str:
            raise _odd("reason", self.reason, "a text")
        if isinstance(self.evidence, str):
            raise _odd("evidence", self.evidence, "a list")
        if isinstance(self.findings, str) or any(type(finding) is not str for finding in self.findings):
            raise _odd("findings", self.findings, "a list of texts")


def _odd(name: str, value: object, wanted: str) -> UsageError:
    return UsageError(
        f"a check's {name} is {ascii(value)[:100]}", code="invalid_check", next=f"Give {name} as {wanted}."
    )


def check_member(name: str, check: Check) -> dict[str, Any]:
    """The member `check` of the `step_output` that records it: what lists show; the whole answer stands beside."""
    member: dict[str, Any] = {"id": name, "passed": check.passed}
    if check.score is not None:
        member["score"] = check.score
    if check.reason:
        member["reason"] = check.reason[:TEXT_CHARS]
    if check.evidence:
        member["evidence"] = [_text(item) for item in check.evidence[:EVIDENCE]]
    if check.findings:
        member["findings"] = [finding[:TEXT_CHARS] for finding in check.findings]
    return member


def _text(item: Any) -> str:
    return (item if isinstance(item, str) else json_text(item))[:TEXT_CHARS]


def take_check(state: RunState, step_id: str, member: object) -> None:
    """Fold one recorded check.

    Raises:
        Illegal: it does not say what was checked or whether it passed.
    """
    try:
        found = msgspec.convert(member, CheckState, strict=True)
    except msgspec.ValidationError as fault:
        raise Illegal(f"the check of step {step_id!r} cannot be read: {fault}") from None
    if not found.id.strip():
        raise Illegal(f"the check of step {step_id!r} has no name")
    state.checks = (*state.checks, msgspec.structs.replace(found, step_id=step_id))


def scenario_results(checks: Sequence[CheckState]) -> list[dict[str, Any]]:
    """Contract §2.8: one result a check that ran; one of the same name is numbered, for none of them is forgotten."""
    results: list[dict[str, Any]] = []
    seen: dict[str, int] = {}
    for check in checks:
        number = seen[check.id] = seen.get(check.id, 0) + 1
        result: dict[str, Any] = {"id": check.id if number == 1 else f"{check.id} #{number}", "passed": check.passed}
        if check.score is not None:
            result["score"] = check.score
        if check.reason:
            result["reason"] = check.reason
        results.append(result)
    return results


def findings(checks: Sequence[CheckState]) -> list[str]:
    """Security findings that checks reported, each once."""
    return list(dict.fromkeys(finding for check in checks for finding in check.findings))


def evaluation(state: RunState) -> dict[str, Any]:
    """The member `evaluation` of pause, finish and snapshot: what ran, and nothing else."""
    return {
        "profile": "standard",
        "scenarioResults": scenario_results(state.checks),
        "qualityScores": {},
        "securityFindings": findings(state.checks),
    }


def check_rows(state: RunState) -> list[dict[str, Any]]:
    """Our own account of the checks: their results with step and evidence."""
    return [
        {**result, "stepId": check.step_id, "evidence": list(check.evidence), "findings": list(check.findings)}
        for result, check in zip(scenario_results(state.checks), state.checks, strict=True)
    ]


def readiness(state: RunState, status: str) -> dict[str, Any]:
    """The member `releaseReadiness`: ready only when the run succeeded, checks ran, and all of them passed.

    Args:
        state: The run.
        status: Of its outcome (contract §2.8).
    """
    standing = {"succeeded": [], "paused": ["the run is paused"]}.get(status, [f"the run {status}"])
    blockers = [*standing, *_failed(scenario_results(state.checks))]
    blockers += [f"open security finding: {finding}" for finding in findings(state.checks)]
    return {"ready": not blockers, "blockers": blockers, "warnings": _warnings(state) if state.checks else []}


def _failed(results: Sequence[Mapping[str, Any]]) -> list[str]:
    if not results:
        return ["no evaluation ran"]
    return [
        f"check {result['id']!r} did not pass" + (f": {result['reason']}" if result.get("reason") else "")
        for result in results
        if not result["passed"]
    ]


def _warnings(state: RunState) -> list[str]:
    """What was released by running already, and cannot be taken back."""
    done = [
        call.tool
        for call in state.calls.values()
        if call.may_change_the_world
        and (call.capability is None or call.capability.effect not in _REVERSIBLE)
        and call.status in ("started", "committed", "unknown")
        and not (call.settled_by is not None and call.settled_by.outcome == "did_not_happen")
    ]
    if not done:
        return []
    tools = sorted(set(done))
    named = ", ".join(tools[:TOOLS]) + (", …" if len(tools) > TOOLS else "")
    return [f"{len(done)} effect{'' if len(done) == 1 else 's'} outside cannot be undone: {named}"]
