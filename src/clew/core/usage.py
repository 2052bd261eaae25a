"""What providers report of their answers: normalised, set and not added within one answer, counted once per message.

Limits on it belong to `budget`, a run's sums to `metrics`.
"""

from typing import Any, Literal

import msgspec

CacheStatus = Literal["available", "unavailable"]

_COUNTS = (
    "tokens", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_micro_usd",
)  # fmt: skip


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What a provider reported of one answer; leave out what it did not. Money in millionths of a dollar.

    `input_tokens` are those that came from no cache: input + cache read + cache write is the size of the prompt. The
    constructors make that of what providers say.

    Attributes:
        tokens: All tokens, prompt and output; the sum of the others when it is left out.
        prompt_cache_status: `available` or `unavailable`, if the provider says whether it has a prompt cache.
    """

    tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost_micro_usd: int | None = None
    prompt_cache_status: CacheStatus | None = None

    @classmethod
    def from_openai(
        cls, *, prompt_tokens: int | None = None, completion_tokens: int | None = None,
        cached_tokens: int | None = None, cost_usd: float | None = None,
    ) -> "Usage":  # fmt: skip
        """Of a provider whose prompt count contains what came from its cache (OpenAI, Gemini and those like them).

        A cached part that is larger than the whole says nothing: how the prompt divides is then left out.
        """
        contradicts = prompt_tokens is not None and (cached_tokens or 0) > prompt_tokens
        fresh = None if prompt_tokens is None or contradicts else prompt_tokens - (cached_tokens or 0)
        whole = None if prompt_tokens is None or completion_tokens is None else prompt_tokens + completion_tokens
        return cls(
            tokens=whole,
            input_tokens=fresh,
            output_tokens=completion_tokens,
            cache_read_tokens=None if contradicts else cached_tokens,
            cost_micro_usd=micro_usd(cost_usd),
            prompt_cache_status=None if cached_tokens is None else "available",
        )

    @classmethod
    def from_anthropic(
        cls, *, input_tokens: int | None = None, output_tokens: int | None = None,
        cache_read_input_tokens: int | None = None, cache_creation_input_tokens: int | None = None,
        cost_usd: float | None = None,
    ) -> "Usage":  # fmt: skip
        """Of a provider whose input count stands beside its cache counts (Anthropic and those like it)."""
        cached = cache_read_input_tokens is not None or cache_creation_input_tokens is not None
        return cls(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cache_read_tokens=cache_read_input_tokens,
            cache_write_tokens=cache_creation_input_tokens,
            cost_micro_usd=micro_usd(cost_usd),
            prompt_cache_status="available" if cached else None,
        )

    def then(self, later: "Usage") -> "Usage":
        """What is known when the same answer is reported again, later: each value is set, none is added.

        For streams, whose end repeats what their start said.
        """
        said = {name: value for name, value in msgspec.structs.asdict(later).items() if value is not None}
        return msgspec.structs.replace(self, **said)

    @property
    def prompt_tokens(self) -> int | None:
        """The size of the prompt: fresh and cached together; None when no part of it was reported."""
        return _sum(self.input_tokens, self.cache_read_tokens, self.cache_write_tokens)

    @property
    def all_tokens(self) -> int | None:
        """All tokens as reported, else the sum of those that were; None when none was."""
        return self.tokens if self.tokens is not None else _sum(self.prompt_tokens, self.output_tokens)


def micro_usd(cost_usd: float | None) -> int | None:
    """Dollars as millionths."""
    return None if cost_usd is None else round(cost_usd * 1_000_000)


def _sum(*counts: int | None) -> int | None:
    reported = [count for count in counts if count is not None]
    return sum(reported) if reported else None


def read_usage(event: dict[str, Any]) -> Usage:
    """What a `turn_end` says; what is no whole number counts as not said."""
    counts = {name: value for name in _COUNTS if type(value := event.get(_CAMEL[name])) is int}
    status = event.get("promptCacheStatus")
    if status == "unavailable":
        # Without a cache nothing came from it: that is known.
        counts = {"cache_read_tokens": 0, "cache_write_tokens": 0} | counts
    return Usage(**counts, prompt_cache_status=status if status in ("available", "unavailable") else None)


_CAMEL = {field.name: field.encode_name for field in msgspec.structs.fields(Usage)}


class UsageCount:
    """Usage of many reports, each message counted once: the last one of an id wins, an equal record is no new one.

    For transcripts of other programs; a run counts its own turns. `repeats` are the reports that were counted before.
    """

    def __init__(self) -> None:
        self.repeats = 0
        self._known: dict[str, Usage] = {}

    def add(self, usage: Usage | None, *, message_id: str | None = None, record: str = "") -> None:
        """Take in one report; without a message id its whole record says whether it was seen before."""
        known = f"id {message_id}" if message_id is not None else f"record {record}" if record else ""
        name = known or str(len(self._known))
        self.repeats += name in self._known
        self._known[name] = self._known.get(name, Usage()).then(usage or Usage())

    @property
    def messages(self) -> int:
        """How many messages there were."""
        return len(self._known)

    @property
    def unmeasured(self) -> int:
        """How many of them reported no tokens; then the sums are what was used at least."""
        return sum(usage.all_tokens is None for usage in self._known.values())

    @property
    def usage(self) -> Usage:
        """The sums of what was reported; what nobody reported is None."""
        known = self._known.values()
        counts = {name: _sum(*(getattr(usage, name) for usage in known)) for name in _COUNTS if name != "tokens"}
        return msgspec.structs.replace(Usage(tokens=_sum(*(usage.all_tokens for usage in known))), **counts)
