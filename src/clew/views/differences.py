"""Files in words: what an effect changed, as unified text where it is text, and what became of a restore."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import unified_diff
from typing import Any, Final

from clew.core.checkpoint import Checkpoint, PathState
from clew.core.comparing import PathDiff
from clew.core.merging import MERGE_BYTES, comparable, is_text, lines_of
from clew.views.plain import When, count_text, one_line, size_text

Content = Callable[[str, PathState], bytes | str | None]
"""The bytes of a file in a state, by path; None, or why, where they are not to be had."""

NULL_DEVICE: Final = "/dev/null"
NO_NEWLINE: Final = "\\ No newline at end of file"
_LISTED: Final = 20
_STANDING: Final = {
    "as_before": "stands as before",
    "as_left": "stands as the call left it",
    "changed": "somebody changed it since",
    "unknown": "nobody recorded how the call left it",
}
_NOT_COVERED: Final = {
    "ignored": "ignored",
    "too_large": "too large",
    "over_limit": "beyond the limit of all files together",
    "unreadable": "not readable",
    "changing": "it changed while it was read",
    "no_file": "a pipe, a socket or a device",
    "kept_out": "never looked at",
}


def difference_lines(taken: Checkpoint, paths: Sequence[PathDiff], content: Content, when: When) -> Iterator[str]:
    """One checkpoint: whose it is, each path in a line, and its text beneath."""
    yield f"{taken.checkpoint_id}  {taken.tool}  {taken.step_id}, attempt {taken.attempt}  {when.second(taken.at)}"
    if taken.before is None:
        yield "  nobody recorded what it changed"
    elif not paths:
        yield "  it changed nothing"
    for each in paths:
        yield ""
        yield f"{change_word(each)}  {_names(each)}  ({standing_text(each)})"
        yield from path_lines(each, content)
    if taken.not_covered:
        yield from ["", "not covered:", *(f"  {_missing(told)}" for told in taken.not_covered)]


def difference_json(taken: Checkpoint, paths: Iterable[PathDiff], content: Content) -> dict[str, Any]:
    """The same for a program: `text` is the unified text in lines, `word` what stands in its place."""
    return {
        "checkpointId": taken.checkpoint_id,
        "tool": taken.tool,
        "stepId": taken.step_id,
        "idempotencyKey": taken.key,
        "attempt": taken.attempt,
        "at": taken.at,
        "reversible": taken.reversible,
        "recorded": taken.after is not None,
        "paths": [{**each.as_json(), "change": change_word(each), **_text_json(each, content)} for each in paths],
        "notCovered": list(taken.not_covered),
    }


def _missing(told: Mapping[str, Any]) -> str:
    name = told.get("path") or told.get("pattern")
    count = count_text(told["count"], "path") if "count" in told else ""
    why = _NOT_COVERED.get(told["why"], told["why"])
    return one_line(": ".join(part for part in (name or count, why, count if name else "") if part), 300)


def _text_json(each: PathDiff, content: Content) -> dict[str, Any]:
    word, lines = _compared(each, content)
    return {"word": word, "text": lines}


def change_word(each: PathDiff) -> str:
    """What happened to a path, in a word."""
    old, new = each.before, each.compared
    if each.renamed:
        return "renamed"
    if old.kind == "absent":
        return "new"
    if new.kind == "absent":
        return "gone"
    if old.kind != new.kind:
        return f"{old.kind} became {new.kind}"
    return "mode" if old.kind != "link" and old.sha256 == new.sha256 else "changed"


def standing_text(each: PathDiff) -> str:
    """How a path stands now, as far as a restore is concerned."""
    if each.unseen:
        return f"it cannot be looked at: {one_line(each.unseen, 300)}"
    if each.standing == "changed" and each.by:
        return f"{each.by} changed it later"
    return _STANDING[each.standing]


def _names(each: PathDiff) -> str:
    new = one_line(each.path, 1000)
    return f"{one_line(each.renamed, 1000)} → {new}" if each.renamed else new


def path_lines(each: PathDiff, content: Content) -> Iterator[str]:
    """One path: its mode, target or kind where that changed, and its text, or a word for it."""
    old, new = each.before, each.compared
    yield f"--- {NULL_DEVICE if old.kind == 'absent' else f'a/{one_line(each.renamed or each.path, 1000)}'}"
    yield f"+++ {NULL_DEVICE if new.kind == 'absent' else f'b/{one_line(each.path, 1000)}'}"
    if old.kind != new.kind or old.kind == "link" or (None not in (old.mode, new.mode) and old.mode != new.mode):
        yield f"{_kind_text(old)} → {_kind_text(new)}"
    word, lines = _compared(each, content)
    if word:
        yield word
    yield from lines or ()


def _kind_text(state: PathState) -> str:
    if state.kind == "absent":
        return "nothing"
    if state.kind == "link":
        return f"link to {one_line(state.target or '', 1000)!r}"
    return state.kind if state.mode is None else f"{state.kind} of mode {state.mode:04o}"


def _compared(each: PathDiff, content: Content) -> tuple[str, list[str] | None]:
    """A word for two contents, and their unified text where they have one."""
    old, new = each.before, each.compared
    if old.sha256 == new.sha256:
        return "", None
    sizes = _sizes(old.size_bytes, new.size_bytes)
    if max(old.size_bytes or 0, new.size_bytes or 0) > MERGE_BYTES:
        return f"too large to compare line by line, {sizes} (the limit is {size_text(MERGE_BYTES)})", None
    sides = [_bytes(each.renamed or each.path, old, content), _bytes(each.path, new, content)]
    known = [side for side in sides if isinstance(side, bytes)]
    if len(known) < len(sides):
        first = isinstance(sides[0], bytes)
        why = sides[first]
        because = f": {one_line(why, 300)}" if isinstance(why, str) else ""
        return f"its content as it was{' left' if first else ''} is not to be had, {sizes}{because}", None
    if not all(map(is_text, known)):
        return f"binary, {sizes}", None
    lines = [lines_of(side) for side in known]
    if not comparable(*lines):
        return f"too many equal lines to compare one by one, {sizes}", None
    plain = all(map(_is_utf8, known))
    return "" if plain else r"not UTF-8: other bytes stand as \xNN", list(_unified(*lines))


def _bytes(path: str, state: PathState, content: Content) -> bytes | str | None:
    return content(path, state) if state.kind == "file" else b""


def _sizes(old: int | None, new: int | None) -> str:
    if old is None or new is None:
        return " → ".join("nothing" if size is None else count_text(size, "byte") for size in (old, new))
    return f"{old} → {count_text(new, 'byte')}"


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _unified(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[str]:
    """The hunks, without the two lines of names; what a terminal would obey is written out, tabs stay."""
    before, after = ([line.decode("utf-8", "surrogateescape") for line in side] for side in (old, new))
    hunks = unified_diff(before, after, lineterm="")
    for number, line in enumerate(hunks):
        if number < 2:
            continue
        if line.startswith("@@"):
            yield line
            continue
        yield line[0] + "".join(map(_shown, line[1:].removesuffix("\n")))
        if not line.endswith("\n"):
            yield NO_NEWLINE


def _shown(letter: str) -> str:
    if "\udc80" <= letter <= "\udcff":
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter if letter == "\t" or letter.isprintable() else ascii(letter)[1:-1]


# What became of a restore.


def restored_lines(report: Mapping[str, Any]) -> list[str]:
    """Each path with its outcome, and why it was left alone where it was."""
    paths = report["paths"]
    width = max((len(each["outcome"]) for each in paths), default=0)
    return [f"{each['outcome']:<{width}}  {one_line(each['path'], 1000)}{_why(each)}" for each in paths]


def _why(each: Mapping[str, Any]) -> str:
    return f"  ({one_line(each['why'], 500)})" if each.get("why") else ""


def restored_summary(report: Mapping[str, Any]) -> str:
    """How many of each outcome: `k3: 2 restored, 1 conflict`."""
    outcomes = [each["outcome"] for each in report["paths"]]
    counts = ", ".join(_counted(outcomes.count(outcome), outcome) for outcome in dict.fromkeys(outcomes))
    would = "it would be: " if report["dryRun"] else ""
    return f"{report['checkpointId']}: {would}{counts or 'nothing to do'}"


def restored_next(report: Mapping[str, Any]) -> list[str]:
    """What can be done about paths that were left alone; nothing when none was."""
    left = [each for each in report["paths"] if each["outcome"] in ("conflict", "unknown")]
    if not left:
        return []
    one = f"{report['runId']} {report['checkpointId']}"
    steps = [f"next: clew diff {one}  shows how they stand"]
    if any(each.get("by") for each in left):
        steps.append(f"or:   clew restore {one} --later  takes back what later calls did as well")
    if any(each.get("why") == _STANDING["changed"] for each in left):
        later = " --later" if report.get("through") else ""
        steps.append(f"or:   clew restore {one}{later} --merge  takes the call's lines back and leaves yours")
    return steps


def _counted(count: int, outcome: str) -> str:
    return count_text(count, outcome) if outcome == "conflict" else f"{count} {outcome}"


def restore_told(event: Mapping[str, Any]) -> list[str]:
    """A `restored` event of a journal: what was about to be put back, or what became of it, a line a path."""
    paths = [each for each in event.get("paths") or () if isinstance(each, dict)]
    ended = event.get("state") == "ended"
    word = f"{event.get('restoreId')} of {event.get('checkpointId')} {'ended' if ended else 'begins'}"
    head = f"{word}: {count_text(len(paths), 'path')}, by {event.get('by')}: {event.get('reason')}"
    listed = [f"{each.get('outcome', 'is to be put back')}  {each.get('path')}{_why(each)}" for each in paths]
    more = [f"… and {len(listed) - _LISTED} more"] if len(listed) > _LISTED else []
    return [one_line(text, 500) for text in (head, *listed[:_LISTED], *more)]
