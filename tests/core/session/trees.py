"""Generated sessions of v1 to v3: branches, labels, moves, compactions of every kind, in both dialects."""

import json
from typing import Any

from hypothesis import strategies as st

from tests.core.session.scribe import TIME, USAGE, answered, asked, at, line, said, session
from tests.strategies import texts as any_text

Entry = dict[str, Any]

# What the writers of these files could write: no half of an emoji beside another one.
some_text = st.sampled_from(["", "hi", "x\u2028y\u2029z\x85w", "half \ud83e", "Ω 漢字", 'a\\b"c']) | any_text
numbers = st.sampled_from([0, 1, -0.0, 0.0011099999999999999, 2512292042121000001, 1e300, 12.50])
datas = st.none() | st.fixed_dictionaries({"n": numbers, "t": some_text}) | st.lists(numbers, max_size=2)
content = st.one_of(
    some_text, st.none(), st.lists(st.builds(lambda text: {"type": "text", "text": text}, some_text), max_size=2)
)
usages = st.sampled_from([None, USAGE, {**USAGE, "input": 0.5}, dict.fromkeys(("input", "output", "totalTokens"), 0)])

times = st.sampled_from([TIME, TIME, "2026-01-01T00:00:00.000123Z", "2026-01-01T00:00:01Z"])


@st.composite
def messages(draw: st.DrawFn, calls: list[str]) -> Entry:
    role = draw(
        st.sampled_from(["user", "assistant", "toolResult", "system", "bashExecution", "custom", "hookMessage"])
    )
    extra: Entry = draw(st.sampled_from([{}, {"futureField": [1]}]))
    match role:
        case "assistant":
            asks = draw(st.lists(st.sampled_from(["c1", "c2", "c3", "c4"]), max_size=2, unique=True))
            calls += asks
            reason = draw(st.sampled_from(["stop", "toolUse", "aborted"]))
            return asked(*asks, usage=draw(usages), stopReason=reason, **extra)
        case "toolResult":
            return answered(draw(st.sampled_from(calls or ["c9"])), usage=draw(usages), **extra)
        case "bashExecution":
            return {"role": role, "command": "ls", "output": draw(some_text), "timestamp": 1}
        case _:
            return said(role, draw(content), **extra)


def own_of(  # noqa: C901  # a table of types
    kind: str, draw: st.DrawFn, ids: list[str], path: list[str], name: str, calls: list[str]
) -> Entry:
    """The members of an entry of this type."""
    # The first ones more often: what leaves the tree from above the root has nobody to stand for it.
    earlier = st.sampled_from([*ids, *ids[:2], name])
    match kind:
        case "message":
            return {"message": draw(messages(calls))}
        case "model_change":
            return {"provider": "p", "modelId": draw(st.sampled_from(["m1", "m2"]))}
        case "thinking_level_change":
            return {"thinkingLevel": draw(st.sampled_from(["off", "high"]))}
        case "active_tools_change":
            return {"activeToolNames": draw(st.lists(st.sampled_from(["read", "bash"]), max_size=2))}
        case "compaction":
            first = draw(st.sampled_from([*path, name]))
            more: Entry = draw(
                st.sampled_from([{}, {"fromHook": True}, {"systemMessage": said("system", "sys")}, {"usage": USAGE}])
            )
            return {"summary": draw(some_text), "firstKeptEntryId": first, "tokensBefore": 5, **more}
        case "branch_summary":
            more = draw(st.sampled_from([{}, {"fromHook": False}, {"usage": USAGE}]))
            return {"fromId": draw(st.just("root") | earlier), "summary": draw(some_text), **more}
        case "custom":
            return {"customType": "x", **draw(st.sampled_from([{}, {"data": None}]))}
        case "custom_message":
            return {"customType": "y", "content": draw(content), "display": True, "details": draw(datas)}
        case "label":
            return {"targetId": draw(earlier), "label": draw(st.sampled_from(["", "one", "two"]))}
        case "session_info":
            return {"name": draw(st.sampled_from(["", "  a title ", "two\nlines", "x"]))}
        case "usage":
            return {"kind": "cache_warm", "provider": "p", "model": "m", "usage": USAGE, "note": "n"}
        case "context_edit":
            new = draw(st.none() | st.builds(lambda text: {"content": text}, some_text))
            return {"targetId": draw(earlier), "replacement": new}
        case _:
            return {"targetId": draw(st.none() | earlier)}


COMMON = ["message"] * 6 + ["model_change", "thinking_level_change", "compaction", "branch_summary", "custom"]
CODING = [*COMMON, "custom_message", "label", "session_info", "usage", "context_edit"]
CORE = [*COMMON, "active_tools_change", "label", "session_info", "leaf", "compaction"]
LEAVING = ["session_info", "label"]


@st.composite
def trees(draw: st.DrawFn) -> bytes:
    """A v2 or v3 session of either dialect, with up to fourteen entries."""
    core = draw(st.booleans())
    entries: list[Entry] = []
    parents: dict[str, str | None] = {}
    leaf: str | None = None
    calls: list[str] = []
    for number in range(draw(st.integers(0, 14))):
        name = f"e{number}"
        kinds = CORE if core else CODING
        kind = draw(st.sampled_from(kinds if entries else [*kinds, *LEAVING * 4]))
        parent = draw(st.sampled_from([leaf, leaf, leaf, None, *parents]))
        path = _path(parents, parent)
        own = own_of(kind, draw, list(parents), path, name, calls)
        if core and kind == "compaction" and draw(st.booleans()):
            own["retainedTail"] = [said("user", draw(content)) for _ in range(draw(st.integers(0, 2)))]
        entries.append({**at(kind, name, parent, **own), "timestamp": draw(times)})
        parents[name] = parent
        leaf = own["targetId"] if kind == "leaf" else name
    version = 3 if core else draw(st.sampled_from([2, 3]))
    more = {"metadata": {"profile": "r"}} if core and draw(st.booleans()) else {}
    return session(*entries, version=version, **more)


def _path(parents: dict[str, str | None], leaf: str | None) -> list[str]:
    found = []
    while leaf is not None:
        found.append(leaf)
        leaf = parents[leaf]
    return found


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """A v1 session: linear, without ids, with compactions by index, good and bad."""
    entries: list[Entry] = []
    calls: list[str] = []
    for number in range(draw(st.integers(0, 10))):
        kind = draw(st.sampled_from(["message"] * 4 + ["model_change", "thinking_level_change", "compaction"]))
        own = own_of(kind, draw, [], [], "", calls) if kind != "compaction" else {
            "summary": draw(some_text), "firstKeptEntryIndex": draw(st.integers(-1, number + 3)), "tokensBefore": 5,
        }  # fmt: skip
        entry = at(kind, "", None, **own)
        placed = {name: value for name, value in entry.items() if name not in ("id", "parentId")}
        entries.append({**placed, "timestamp": draw(times)})
    settings = draw(st.sampled_from([{}, {"thinkingLevel": "high"}, {"provider": "p", "modelId": "m0"}]))
    return session(*entries, version=None, **settings, branchedFrom="/old.jsonl")


ODD: list[Any] = [
    None, 0, -1, 1.5, True, "", "e0", "\ud800", [], {}, [1], {"a": 1}, 10**30, ["x"], {"content": 5},
    {"role": "assistant", "content": [1]}, [{"role": "toolResult"}], {"targetId": "x"},
]  # fmt: skip
NAMES = (
    "kind",
    "lane",
    "seq",
    "usage",
    "message",
    "systemMessage",
    "retainedTail",
    "data",
    "targetId",
    "type",
    "version",
)


@st.composite
def spoiled(draw: st.DrawFn, sound: st.SearchStrategy[bytes]) -> bytes:
    """A session in which something is wrong: a member, a line, a byte."""
    lines = draw(sound).split(b"\n")[:-1]
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["member", "member", "member", "twice", "byte"])):
            case "member":
                try:
                    lines[at] = line(_spoiled(draw, json.loads(lines[at])))[:-1]
                except ValueError:
                    continue
            case "twice":
                lines.insert(at, draw(st.sampled_from(lines)))
            case _:
                cut = draw(st.integers(0, max(0, len(lines[at]) - 1)))
                lines[at] = lines[at][:cut] + draw(st.binary(max_size=2)) + lines[at][cut + 1 :]
    return b"\n".join(lines) + draw(st.sampled_from([b"\n", b"", b'\n{"ty']))


def _spoiled(draw: st.DrawFn, value: Any) -> Any:
    if type(value) is not dict or not value or draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(ODD))
    name = draw(st.sampled_from(sorted(value)))
    match draw(st.sampled_from(["gone", "odd", "more", "within"])):
        case "gone":
            return {each: item for each, item in value.items() if each != name}
        case "odd":
            return {**value, name: draw(st.sampled_from(ODD))}
        case "more":
            return {**value, draw(st.sampled_from(NAMES)): draw(st.sampled_from(ODD))}
        case _:
            return {**value, name: _spoiled(draw, value[name])}
