"""Effects in words: one as a phrase, one with its evidence, all as a table."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from clew.core.ids import call_short, call_uuid
from clew.views.plain import When, arguments_text, one_line

Effect = Mapping[str, Any]

_OUTCOMES: Final = {"happened": "happened", "did_not_happen": "did not happen", "give_up": "given up"}
_STANDING: Final = {
    "not_started": "not started",
    "started": "started, no answer",
    "unknown": "outcome unknown",
    "committed": "happened",
}


def call_text(effect: Effect, limit: int = 120) -> str:
    """The call as a person would write it: `pay order=1042 cents=4200`."""
    arguments = effect.get("arguments")
    return f"{effect['tool']} {arguments_text(arguments, limit)}" if arguments else str(effect["tool"])


def standing(effect: Effect) -> str:
    """How an effect stands: by its review if a person or a probe settled it, else by its last receipt."""
    review = effect.get("review")
    if review is not None:
        return f"{_OUTCOMES.get(review['outcome'], review['outcome'])}, says {one_line(review['by'])}"
    said = _STANDING.get(effect["status"], str(effect["status"]))
    if effect["status"] == "committed" and not effect["answered"]:
        return "happened, its answer was not kept"
    return f"{said}, answered" if effect["answered"] else said


def uncertain(effect: Effect, when: When) -> str:
    """An open effect in a line: `pay order=1042 cents=4200 (started 13:54:02, no answer)`."""
    known = {"unknown": "outcome unknown", "committed": "happened, its answer was not kept"}
    parts = [known.get(effect["status"], "no answer")]
    if "startedAt" in effect:
        parts.insert(0, f"started {when.second(effect['startedAt'])}")
    elif effect["status"] == "not_started":
        parts.insert(0, "not started")
    return f"{call_text(effect)} ({', '.join(parts)})"


def waiting_lines(waiting: Sequence[Effect], count: int, when: When, how: str = "uncertain") -> list[str]:
    """What waits for a person: in the line itself when it is one, listed by step when there are more.

    `how` says how they stand: uncertain, or under way while their process lives.
    """
    if count == 1 and waiting:
        return [f"1 effect {how}: {uncertain(waiting[0], when)}"]
    if not count:
        return []
    width = max((len(effect["stepId"]) for effect in waiting), default=0)
    listed = [f"  {effect['stepId']:<{width}}  {uncertain(effect, when)}" for effect in waiting]
    more = [f"  … and {count - len(waiting)} more"] if count > len(waiting) else []
    return [f"{count} effects {how}:", *listed, *more]


def effects_table(effects: Iterable[Effect], when: When) -> list[str]:
    """Every effect: which step, what was asked, how it stands, its attempts; below it the names that went outside."""
    listed = list(effects)
    if not listed:
        return ["no effects"]
    rows = [("step", "call", "stands", "attempts")]
    rows += [(effect["stepId"], call_text(effect, 60), standing(effect), _tries(effect, when)) for effect in listed]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    padded = ["  ".join([*map(str.ljust, row[:3], widths), row[3]]).rstrip() for row in rows]
    keys = [[f"{'':<{widths[0]}}  {text}"] if text else [] for text in map(_names, listed)]
    return padded[:1] + [line for row, key in zip(padded[1:], keys, strict=True) for line in (row, *key)]


def _names(effect: Effect) -> str:
    """By which names the other side may know an effect; empty for one that never started."""
    key = effect["idempotencyKey"]
    files = f"  checkpoint {effect['checkpointId']}" if "checkpointId" in effect else ""
    return f"key {key}  as a UUID {call_uuid(key)}{files}" if effect["attempt"] else ""


def _tries(effect: Effect, when: When) -> str:
    if not effect["attempt"]:
        return ""
    return (
        f"{effect['attempt']}, last started {when.second(effect['startedAt'])}"
        if "startedAt" in effect
        else str(effect["attempt"])
    )


def evidence_lines(effect: Effect, when: When) -> list[str]:
    """What a person must know before settling: the call, the names that the other side may know it by, its times."""
    key = effect["idempotencyKey"]
    lines = [
        f"effect     {call_text(effect, 2000)}",
        f"key        {key}",
        f"as a UUID  {call_uuid(key)}   short {call_short(key)}",
        f"attempt    {effect['attempt']}"
        + (f", started {when.second(effect['startedAt'])}" if "startedAt" in effect else ""),
        f"stands     {standing(effect)}",
    ]
    if "checkpointId" in effect:
        lines.append(f"files      checkpoint {effect['checkpointId']}")
    review = effect.get("review")
    return (
        lines
        if review is None
        else [*lines, f"settled    by {one_line(review['by'])}: {one_line(review['reason'], 500)}"]
    )
