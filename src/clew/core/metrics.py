"""Measured facts of a run, counted while folding. What nobody reported stays null; nothing is estimated."""

from typing import Any

import msgspec

from clew.core.usage import Usage, read_usage

_NOTHING = Usage()


class Talk(msgspec.Struct, frozen=True):
    """What was asked of models over all legs, beside the sums. Replaced with each turn, never changed.

    Attributes:
        asked: Requests that were sent; one that died and was sent again counts twice.
        open: Requests of the leg that runs whose turn has not ended.
        no_tokens: Requests whose tokens nobody reported, those that died included; `no_cost` likewise.
        repeats: Reports of messages that had been counted before.
        last_prompt: Size of the last prompt that was measured, in tokens.
        cache: `available` or `unavailable`, as providers said; empty while none did.
        artifacts: Stored, blocked, and bytes stored; None while there is none.
    """

    asked: int = 0
    open: int = 0
    no_tokens: int = 0
    no_cost: int = 0
    repeats: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    last_prompt: int | None = None
    cache: str = ""
    compactions: int = 0
    last_summary: str = ""
    prefixes: tuple[str, ...] = ()
    artifacts: tuple[int, int, int] | None = None

    def context(self) -> dict[str, Any]:
        """Contract §2.8, `context`: sums of what was reported, null where nobody did."""
        found: dict[str, Any] = {
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
            "cacheReadTokens": self.cache_read_tokens,
            "cacheWriteTokens": self.cache_write_tokens,
            "promptCacheStatus": self.cache or "unknown",
            "compactions": self.compactions,
            "stablePrefixFingerprints": list(self.prefixes),
        }
        if self.last_summary:
            found["lastSummaryFingerprint"] = self.last_summary
        return found

    @property
    def told(self) -> bool:
        """Is there anything in `context` that somebody reported?"""
        parts = (self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_write_tokens)
        return bool(self.cache or self.compactions or self.prefixes) or any(part is not None for part in parts)


_NO_TALK = Talk()


class RunMetrics(msgspec.Struct):
    """Counts of one run over all its legs. Times in milliseconds; `None` means not measured, never zero.

    `retries` are attempts above the first. `unmeasured_turns` are requests of which neither tokens nor cost is known.
    """

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
    talk: Talk = _NO_TALK

    def add_request(self) -> None:
        """Count one request to a model, which is not measured before its turn ends."""
        talk = self.talk
        self.talk = msgspec.structs.replace(talk, asked=talk.asked + 1, open=talk.open + 1)

    def add_usage(self, event: dict[str, Any], earlier: Usage | None = None) -> Usage:
        """Count one `turn_end`: once, and unmeasured when it carries no usage.

        Args:
            event: The event.
            earlier: What was counted of the same provider message before; only what is new is added, the last wins.

        Returns:
            What is known of the message now.
        """
        before = earlier or _NOTHING
        usage = before.then(read_usage(event))
        self.tokens = _more(self.tokens, usage.all_tokens, before.all_tokens)
        self.cost_micro_usd = _more(self.cost_micro_usd, usage.cost_micro_usd, before.cost_micro_usd)
        self._count(usage, before, repeated=earlier is not None)
        return usage

    def _count(self, usage: Usage, before: Usage, *, repeated: bool) -> None:
        talk = self.talk
        tokens, cost = usage.all_tokens, usage.cost_micro_usd
        lacked = (before.all_tokens, before.cost_micro_usd) if repeated else (0, 0)
        self.unmeasured_turns += (tokens is None and cost is None) - (lacked == (None, None) != (tokens, cost))
        sums = {
            name: _more(getattr(talk, name), getattr(usage, name), getattr(before, name))
            for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
        }
        cache = usage.prompt_cache_status
        self.talk = msgspec.structs.replace(
            talk,
            **sums,
            open=max(0, talk.open - 1),
            asked=max(talk.asked, self.turns),
            no_tokens=talk.no_tokens + _lack(tokens, lacked[0]),
            no_cost=talk.no_cost + _lack(cost, lacked[1]),
            repeats=talk.repeats + repeated,
            last_prompt=talk.last_prompt if usage.prompt_tokens is None else usage.prompt_tokens,
            cache="available" if "available" in (talk.cache, cache) else cache or talk.cache,
        )

    def lose_open(self, count: int | None = None) -> None:
        """What was asked and never answered was paid, perhaps, and is not measured: all that is open, or so many."""
        talk = self.talk
        lost = talk.open if count is None else count
        if lost:
            self.unmeasured_turns += lost
            self.talk = msgspec.structs.replace(
                talk, open=talk.open - lost, no_tokens=talk.no_tokens + lost, no_cost=talk.no_cost + lost
            )

    def add_answer(self, *, is_error: bool) -> None:
        """Count one step that has its answer."""
        if is_error:
            self.steps_failed += 1
        else:
            self.steps_succeeded += 1

    def recorded(self, duration_ms: int, *, clock_stepped: bool) -> dict[str, Any]:
        """The form that `pause` and `finish` carry: unmeasured members left out, what is open is not measured."""
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
            "unmeasuredTurns": self.unmeasured_turns + self.talk.open,
        }
        if self.tokens is not None:
            view["tokens"] = self.tokens
        if self.cost_micro_usd is not None:
            view["costMicroUsd"] = self.cost_micro_usd
        if self.rejected_after_abort:
            view["rejectedAfterAbort"] = self.rejected_after_abort
        if clock_stepped:
            view["clockStepped"] = True
        if self.talk.told:
            view["context"] = {name: value for name, value in self.talk.context().items() if value is not None}
        if self.talk.artifacts is not None:
            view["artifacts"] = dict(zip(("stored", "blocked", "totalBytes"), self.talk.artifacts, strict=True))
        return view

    def snapshot(self, duration_ms: int, *, clock_stepped: bool) -> dict[str, Any]:
        """The form of our own snapshot: unmeasured members are null.

        `tokens` sums all requests, `lastPromptTokens` is the size of the last one: two different things.
        """
        view = self.recorded(duration_ms, clock_stepped=clock_stepped)
        view.setdefault("tokens", None)
        cost = view.pop("costMicroUsd", None)
        view["costUsd"] = None if cost is None else cost / 1_000_000
        talk = self.talk
        view["context"] = talk.context()
        view["lastPromptTokens"] = talk.last_prompt
        view["requests"] = talk.asked
        view["unmeasuredTokens"] = talk.no_tokens + talk.open
        view["unmeasuredCosts"] = talk.no_cost + talk.open
        view["repeatedMessages"] = talk.repeats
        return view


def _lack(now: int | None, before: int | None) -> int:
    """One more request of which this is not known, or one less: it is now."""
    return (now is None) - (before is None is not now)


def _more(total: int | None, now: int | None, before: int | None) -> int | None:
    """A sum with what is new of one part of it; None while nobody reported any."""
    return total if now is None else (total or 0) + now - (before or 0)
