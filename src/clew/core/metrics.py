"""Measured facts of a run, counted while folding. What nobody reported stays null; nothing is estimated."""

from typing import Any

import msgspec

_PARTS = ("inputTokens", "outputTokens")


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What a provider reported of one turn; leave out what it did not. Money in millionths of a dollar."""

    tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost_micro_usd: int | None = None


class RunMetrics(msgspec.Struct):
    """Counts of one run over all its legs. Times in milliseconds; `None` means not measured, never zero."""

    turns: int = 0
    unmeasured_turns: int = 0
    steps_started: int = 0
    steps_succeeded: int = 0
    steps_failed: int = 0
    tool_calls: int = 0
    tool_failures: int = 0
    retries: int = 0
    output_chars: int = 0
    tokens: int | None = None
    cost_micro_usd: int | None = None
    rejected_after_abort: int = 0

    def add_usage(self, event: dict[str, Any]) -> None:
        """Count one `turn_end`: once, and unmeasured when it carries no usage."""
        tokens = _tokens_of(event)
        cost = event.get("costMicroUsd")
        if tokens is None and type(cost) is not int:
            self.unmeasured_turns += 1
        if tokens is not None:
            self.tokens = (self.tokens or 0) + tokens
        if type(cost) is int:
            self.cost_micro_usd = (self.cost_micro_usd or 0) + cost

    def add_answer(self, *, is_error: bool) -> None:
        """Count one step that has its answer."""
        if is_error:
            self.steps_failed += 1
        else:
            self.steps_succeeded += 1

    def recorded(self, duration_ms: int, *, clock_stepped: bool) -> dict[str, Any]:
        """The form that `pause` and `finish` carry: unmeasured members left out."""
        view: dict[str, Any] = {
            "durationMs": duration_ms,
            "turns": self.turns,
            "steps": {
                "total": self.steps_started,
                "succeeded": self.steps_succeeded,
                "failed": self.steps_failed,
            },
            "toolCalls": self.tool_calls,
            "toolFailures": self.tool_failures,
            "retries": self.retries,
            "outputChars": self.output_chars,
            "unmeasuredTurns": self.unmeasured_turns,
        }
        if self.tokens is not None:
            view["tokens"] = self.tokens
        if self.cost_micro_usd is not None:
            view["costMicroUsd"] = self.cost_micro_usd
        if self.rejected_after_abort:
            view["rejectedAfterAbort"] = self.rejected_after_abort
        if clock_stepped:
            view["clockStepped"] = True
        return view

    def snapshot(self, duration_ms: int, *, clock_stepped: bool) -> dict[str, Any]:
        """The form of our own snapshot: unmeasured members are null."""
        view = self.recorded(duration_ms, clock_stepped=clock_stepped)
        view.setdefault("tokens", None)
        cost = view.pop("costMicroUsd", None)
        view["costUsd"] = None if cost is None else cost / 1_000_000
        return view


def _tokens_of(event: dict[str, Any]) -> int | None:
    """The turn's tokens as reported, or input plus output when only those were."""
    if type(event.get("tokens")) is int:
        return int(event["tokens"])
    counted = [event[name] for name in _PARTS if type(event.get(name)) is int]
    return sum(counted) if counted else None
