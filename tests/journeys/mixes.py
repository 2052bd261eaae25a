"""Random mixes of what tools, their subprocesses and a person do to one folder, and a naive judge of restores."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.runtime.keeper import RUN, WHO, Keeper, Standing, standing

NAMES = [
    b"a", b"b.txt", b"d", b"d/f", b"d/g", b"d/e", b"d/e/h", b"\xff\xfe", b"d/na\nme", b"\xef\xbb\xbfbom", "甲".encode(),
]  # fmt: skip
CONTENTS = [
    b"", b"text\n", b"text\r\nmore\r\n", b"no end", bytes(range(256)), "甲乙\n".encode("gb18030"), "甲\n".encode(),
    b"\xef\xbb\xbfmarked\n", "wide\n".encode("utf-16"), b"\0\r\n\xff" * 40,
]  # fmt: skip
MODES = [0o600, 0o644, 0o755, 0o400]
TARGETS = [b"a", b"nowhere", b"../outside", b"d/f", b"\xff\xfe"]


class Edit(NamedTuple):
    """One thing that somebody does to one path; what cannot be done there is left undone."""

    deed: str
    path: bytes
    other: Any = None


# Some paths are in everybody's hands, or nobody would meet.
PATHS = st.sampled_from([*[b"a"] * 8, *[b"d/f"] * 3, *NAMES])
EDITS = st.one_of(
    st.builds(Edit, st.just("write"), PATHS, st.sampled_from(CONTENTS)),
    st.builds(Edit, st.just("write"), PATHS, st.binary(max_size=40)),
    st.builds(Edit, st.just("folder"), st.sampled_from([b"d", b"d/e", b"a", b"b.txt"]), st.none()),
    st.builds(Edit, st.just("chmod"), PATHS, st.sampled_from(MODES)),
    st.builds(Edit, st.just("link"), PATHS, st.sampled_from(TARGETS)),
    st.builds(Edit, st.just("remove"), PATHS, st.none()),
    st.builds(Edit, st.just("rename"), PATHS, PATHS),
)


class Step(NamedTuple):
    """A call that declares some paths and edits them, in its own process or another, or a person who edits."""

    who: str
    edits: list[Edit]
    declared: list[bytes]


CALLS, PEOPLE = (
    st.builds(
        Step,
        st.sampled_from(who),
        st.lists(EDITS, min_size=1, max_size=4),
        st.lists(PATHS, max_size=2, unique=True),
    )
    for who in (["tool", "subprocess"], ["person"])
)


class Mix(NamedTuple):
    """A whole example: how the folder begins, who does what, and what is asked of the restore at the end."""

    first: list[Edit]
    steps: list[Step]
    last: list[Edit]
    pick: int
    later: bool


MIXES = st.builds(
    Mix,
    st.lists(EDITS, min_size=6, max_size=12),
    st.builds(lambda first, rest: [first, *rest], CALLS, st.lists(CALLS | PEOPLE, max_size=3)),
    st.lists(EDITS, max_size=3),
    st.integers(0, 9),
    st.booleans(),
)


def edit(folder: bytes, todo: Edit, *, apart: bool = False) -> None:
    """Do it, in another process if `apart`; nothing outside of the folder is ever touched."""
    place = os.path.join(folder, todo.path)
    if _through_link(folder, todo.path) or not os.path.isdir(os.path.dirname(place)):
        return
    try:
        if apart:
            _apart(folder, place, todo)
        else:
            _here(folder, place, todo)
    except OSError:
        return


def _through_link(folder: bytes, path: bytes) -> bool:
    above, _, _ = path.rpartition(b"/")
    return bool(above) and (os.path.islink(os.path.join(folder, above)) or _through_link(folder, above))


def _here(folder: bytes, place: bytes, todo: Edit) -> None:
    match todo.deed:
        case "write" if not os.path.islink(place):
            Path(os.fsdecode(place)).write_bytes(todo.other)
        case "chmod" if os.path.exists(place) and not os.path.islink(place):
            os.chmod(place, todo.other | (0o700 if os.path.isdir(place) else 0))
        case "link" if not os.path.lexists(place):
            os.symlink(todo.other, place)
        case "folder":
            os.mkdir(place)
        case "remove" if os.path.isdir(place) and not os.path.islink(place):
            shutil.rmtree(place)
        case "remove":
            os.unlink(place)
        case "rename":
            os.rename(place, os.path.join(folder, todo.other))


def _apart(folder: bytes, place: bytes, todo: Edit) -> None:
    """The same as a shell's child would."""
    words: dict[str, list[bytes]] = {
        "chmod": [b"chmod", b"%o" % (todo.other or 0o644), place] if todo.deed == "chmod" else [],
        "link": [b"ln", b"-s", b"--", bytes(todo.other or b""), place] if todo.deed == "link" else [],
        "folder": [b"mkdir", place],
        "remove": [b"rm", b"-rf", place],
        "rename": [b"mv", b"-T", place, os.path.join(folder, todo.other or b"")] if todo.deed == "rename" else [],
        "write": [b"dd", b"status=none", b"of=" + place],
    }
    refused = todo.deed in ("chmod", "write") and os.path.islink(place)
    if refused or (todo.deed == "chmod" and os.path.isdir(place)) or (todo.deed == "link" and os.path.lexists(place)):
        return
    given = todo.other if todo.deed == "write" else b""
    subprocess.run(words[todo.deed], input=given, check=False, capture_output=True, timeout=60)


def touched(edits: Iterable[Edit]) -> set[bytes]:
    """Every path that these may change: what is removed or renamed takes along what lies in it."""
    roots = {todo.path for todo in edits} | {todo.other for todo in edits if todo.deed == "rename"}
    return {name for name in NAMES for root in roots if name == root or name.startswith(root + b"/")}


class Played(NamedTuple):
    """A mix that was played: what each call declared, how that stood before and after it, and how all stands now."""

    keeper: Keeper
    calls: list[tuple[set[bytes], Standing, Standing]]
    now: Standing


def play(folder: Path, mix: Mix) -> Played:
    """Let everybody do what they do."""
    place = os.fsencode(folder / "work")
    os.makedirs(place)
    keeper, calls = Keeper(Path(os.fsdecode(place))), list[tuple[set[bytes], Standing, Standing]]()
    for todo in mix.first:
        edit(place, todo)
    for step in mix.steps:
        if step.who == "person":
            for todo in step.edits:
                edit(place, todo)
            continue
        declared = touched(step.edits) | set(step.declared)
        before = standing(keeper.folder)

        def deed(step: Step = step) -> None:
            for todo in step.edits:
                edit(place, todo, apart=step.who == "subprocess")

        keeper.call(sorted(os.fsdecode(name) for name in declared), deed)
        calls.append((declared, before, standing(keeper.folder)))
    keeper.end()
    for todo in mix.last:
        edit(place, todo)
    return Played(keeper, calls, standing(keeper.folder))


def judge(played: Played, mix: Mix) -> str:
    """Restore one of its checkpoints, and hold every path against what a naive reader of the rules expects.

    Returns:
        A word on what the mix was, for whoever counts.
    """
    at = mix.pick % len(played.calls)
    span = played.calls[at:] if mix.later else played.calls[at : at + 1]
    report = played.keeper.home.restore(RUN, f"k{at + 1}", later=mix.later, **WHO)
    told = {os.fsencode(each["path"]): each for each in report["paths"]}
    after = standing(played.keeper.folder)
    declared = {name for names, _, _ in span for name in names}
    assert told.keys() == declared
    for name in {*played.now, *after} - declared:
        made_for_child = name not in played.now and after[name][0] == "folder" and _holds(after, name)
        assert made_for_child or played.now.get(name) == after.get(name), name
    for name in declared:
        _judge_path(name, _chain(name, span), played.now, after, told[name])
    return " ".join(sorted({each["outcome"] for each in told.values()})) or "nothing"


def _chain(name: bytes, span: list[tuple[set[bytes], Standing, Standing]]) -> list[tuple[Any, Any]]:
    return [(before.get(name), after.get(name)) for names, before, after in span if name in names]


def _judge_path(name: bytes, chain: list[tuple[Any, Any]], now: Standing, after: Standing, told: Any) -> None:
    first, left, stands = chain[0][0], chain[-1][1], now.get(name)
    whole = all(found in (was, made) for (was, made), (found, _) in pairwise(chain))
    if stands == first:
        assert (told["outcome"], after.get(name)) == ("unchanged", stands), (name, told)
    elif stands != left or not whole:
        # Somebody else's work: not a byte of it moves, and it is said.
        assert (told["outcome"], after.get(name)) == ("conflict", stands), (name, told)
    elif told["outcome"] == "restored":
        assert after.get(name) == first, (name, told)
    else:
        assert (told["outcome"], after.get(name)) == ("conflict", stands), (name, told)
        assert _in_the_way(name, first, stands, after), (name, told)


def _in_the_way(name: bytes, first: Any, stands: Any, after: Standing) -> bool:
    """A folder that still holds something, or a path above that is no folder."""
    holds = stands is not None and stands[0] == "folder" and _holds(after, name)
    above = [name[:at] for at, letter in enumerate(name) if letter == ord("/")]
    return holds or (first is not None and any(after.get(each, ("", b"", 0))[0] != "folder" for each in above))


def _holds(after: Standing, name: bytes) -> bool:
    return any(other.startswith(name + b"/") for other in after)
