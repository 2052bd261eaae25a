"""What a tool's effect is and what may therefore happen after a crash. Declared values, resolved values, no tools."""

from functools import cached_property
from typing import Any, Final, Literal, get_args

import msgspec

from clew.core.canon import fingerprint

Effect = Literal["none", "workspace", "process", "network", "external", "unknown"]
Replay = Literal["safe", "idempotent", "unsafe", "unknown"]
Disposition = Literal["replay_safe", "requires_proof", "requires_human", "forbidden"]

_WORDS: Final = {"effect": get_args(Effect), "replay": get_args(Replay)}
_REPLAY_STRICTNESS: Final = {"safe": 0, "idempotent": 1, "unknown": 2, "unsafe": 3}


class Capability(msgspec.Struct, frozen=True, omit_defaults=False, dict=True):
    """A resolved capability, all nine members as on disk.

    Source:
        contract §2.9.
    """

    tool: str
    effect: Effect
    replay: Replay
    concurrency: Literal["parallel", "run_serial", "workspace_exclusive"]
    checkpoint: Literal["none", "required", "unsupported"]
    durability: Literal["ordinary", "critical"]
    source: Literal["builtin", "registered", "inferred", "fallback"]
    resolution: Literal["resolved", "fallback"]
    issues: tuple[str, ...] = ()

    @cached_property
    def free(self) -> bool:
        """Effect none and replay safe: the only calls that need no receipt and may simply run again."""
        return self.effect == "none" and self.replay == "safe"

    @cached_property
    def disposition(self) -> Disposition:
        """What a resume needs before it may run the call again (#142)."""
        if self.replay == "unsafe":
            return "forbidden"
        if self.replay == "unknown":
            return "requires_human"
        return "replay_safe" if self.free else "requires_proof"

    def as_json(self) -> dict[str, Any]:
        """The members as they stand in a `capability_resolved` event."""
        return {
            "tool": self.tool,
            "effect": self.effect,
            "replay": self.replay,
            "concurrency": self.concurrency,
            "checkpoint": self.checkpoint,
            "durability": self.durability,
            "source": self.source,
            "resolution": self.resolution,
            "issues": list(self.issues),
        }

    def fingerprint(self) -> str:
        """SHA-256 of the canonical form, as a receipt's binding carries it."""
        return self._fingerprint

    @cached_property
    def told(self) -> str | None:
        """The members of a `capability_resolved` event that say it, as JSON; None where no reader would take them."""
        said = self.as_json()
        capability = msgspec.json.encode(said).decode()
        return f'"capability":{capability},"recoveryDisposition":"{self.disposition}"' if read(said) == self else None

    @cached_property
    def _fingerprint(self) -> str:
        return fingerprint(self.as_json())


def resolve(tool: str, effect: str = "", replay: str = "", *, builtin: bool = False) -> Capability:
    """The capability of a tool that says this of itself; words that are not known give the strictest one.

    An undeclared tool (no effect named) is external and not repeatable.

    Source:
        DESIGN §5; contract #136, #140.
    """
    source: Literal["builtin", "registered", "inferred"] = "builtin" if builtin else "registered"
    if not effect and not replay:
        return Capability(tool, "external", "unknown", "run_serial", "none", "critical", "inferred", "resolved")
    effect, replay = effect or "external", replay or ("safe" if effect == "none" else "unknown")
    issues = [
        f"capability_invalid:{name}"
        for name, word in (("effect", effect), ("replay", replay))
        if word not in _WORDS[name]
    ]
    if issues or (effect not in ("none", "workspace") and replay == "safe"):
        return fallback(tool, issues or ["capability_invalid:replay"])
    if effect == "none":
        calm = replay == "safe"
        lane: Any = "parallel" if calm else "run_serial"
        return Capability(tool, "none", replay, lane, "none", "ordinary" if calm else "critical", source, "resolved")  # type: ignore[arg-type]  # checked above
    if effect == "workspace":
        return Capability(tool, "workspace", replay, "workspace_exclusive", "required", "critical", source, "resolved")  # type: ignore[arg-type]  # checked above
    checkpoint: Any = "unsupported" if effect in ("process", "unknown") else "none"
    return Capability(tool, effect, replay, "run_serial", checkpoint, "critical", source, "resolved")  # type: ignore[arg-type]  # checked above


def with_checkpoint(found: Capability, *, kept: bool) -> Capability:
    """The capability of a tool whose paths are kept before it starts, or of one that did not say which they are.

    A workspace effect without paths can be undone by nobody, and says so: `unsupported`, never `none` (#140).
    """
    if kept:
        return msgspec.structs.replace(found, checkpoint="required")
    return msgspec.structs.replace(found, checkpoint="unsupported") if found.effect == "workspace" else found


def fallback(tool: str, issues: list[str]) -> Capability:
    """The strictest capability, with the reasons why."""
    return Capability(
        tool, "unknown", "unknown", "run_serial", "unsupported", "critical", "fallback", "fallback", tuple(issues)
    )


def read(value: object) -> Capability | None:
    """A recorded capability, or None when members are missing or unknown, or a fallback is not the strictest (#40)."""
    if type(value) is not dict:
        return None
    # Nearly every call of a tool says the same of it, so what was found last is looked at first.
    tool = value.get("tool")
    if type(tool) is not str:
        return None
    known, found = _last_read.get(tool, (None, None))
    if known == value:
        return found
    found = _read(value)
    if len(_last_read) >= _REMEMBERED:
        _last_read.clear()
    _last_read[tool] = (value, found)
    return found


_REMEMBERED: Final = 256
_last_read: dict[str, tuple[dict[str, Any], Capability | None]] = {}


def _read(value: dict[str, Any]) -> Capability | None:
    # All nine and no other: `convert` would add those that have a default, and pass over strangers.
    if len(value) != 9 or "issues" not in value:
        return None
    try:
        found = msgspec.convert(value, Capability)
    except msgspec.ValidationError:
        return None
    if found.resolution == "fallback" and (not found.issues or found != fallback(found.tool, list(found.issues))):
        return None
    return found


def stricter(recorded: Capability, now: Capability) -> Capability:
    """The capability that decides an open attempt: the recorded one, or today's only where that is stricter."""
    return now if _REPLAY_STRICTNESS[now.replay] > _REPLAY_STRICTNESS[recorded.replay] else recorded
