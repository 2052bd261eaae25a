"""Covers of a workspace: what two of them differ in, and only where both know."""

import pytest

from clew.core.checkpoint import ABSENT, BadManifest, PathState
from clew.core.cover import (
    MOST_TOLD,
    Cover,
    NotCovered,
    Touched,
    decode_cover,
    encode_cover,
    lost,
    not_covered_as_json,
    touched,
)

OLD = PathState("file", sha256="a" * 64, size_bytes=1, mode=0o600)
FOLDER = PathState("folder", mode=0o755)
NEW = PathState("file", sha256="b" * 64, size_bytes=1, mode=0o600)


def test_what_changed_came_and_went_is_listed_and_nothing_else() -> None:
    """What a shell did is known by this list alone."""
    before = Cover({"changed": OLD, "gone": OLD, "same": OLD})
    after = Cover({"changed": NEW, "new": NEW, "same": OLD})

    found = touched(before, after)

    assert found == Touched(
        {"changed": OLD, "gone": OLD, "new": ABSENT},
        {"changed": NEW, "gone": ABSENT, "new": NEW},
    )


@pytest.mark.parametrize("unknown", ["build/out.bin", "build"])
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_path_that_one_side_did_not_cover_is_not_said_to_have_come_or_gone(unknown: str, side: str) -> None:
    """A restore would remove the user's file, for a look that stopped at a limit would read as: it was absent."""
    full, short = Cover({"build/out.bin": OLD}), Cover({}, (NotCovered(unknown, "ignored", ".gitignore: build"),))

    found = touched(short, full) if side == "before" else touched(full, short)

    assert found == Touched({}, {})


def test_what_is_not_covered_any_more_is_looked_at_by_itself() -> None:
    """A command that writes an ignore file must not hide by it what else it did."""
    before = Cover({"build": FOLDER, "build/a": OLD, "build/b": OLD, "c": OLD})
    after = Cover({"c": OLD}, (NotCovered("build", "ignored", ".gitignore: build"), NotCovered("d", "too_large")))

    found = touched(before, after, {"build": FOLDER, "build/a": NEW})

    assert (["build", "build/a", "build/b"], Touched({"build/a": OLD}, {"build/a": NEW})) == (
        lost(before, after),
        found,
    )


def test_a_path_beside_one_that_is_not_covered_is_known() -> None:
    """Only what lies at or below the path is unknown, not what begins with its letters."""
    found = touched(Cover({}, (NotCovered("build", "ignored"),)), Cover({"builder": NEW, "a/build": NEW}))

    assert sorted(found.paths) == ["a/build", "builder"]


def test_a_rule_is_told_once_and_paths_up_to_a_number() -> None:
    """A record must stay small where a rule ignores 50,000 files; how many they are is still said."""
    ignored = [NotCovered(f"{at}.pyc", "ignored", ".gitignore: *.pyc") for at in range(3)]
    large = [NotCovered(f"{at:03}.bin", "too_large") for at in range(MOST_TOLD + 2)]

    told = not_covered_as_json([*ignored, *large, NotCovered("pipe", "no_file")])

    assert told == [
        *({"path": f"{at:03}.bin", "why": "too_large"} for at in range(MOST_TOLD)),
        {"path": "pipe", "why": "no_file"},
        {"pattern": ".gitignore: *.pyc", "why": "ignored", "count": 3},
        {"why": "too_large", "count": 2},
    ]


def test_a_cover_survives_its_bytes_with_any_name() -> None:
    """It lies in a blob between two processes; a name that is not UTF-8 is a name too."""
    cover = Cover({"a\udcff/ü": OLD}, (NotCovered("\udc80", "ignored", "\udc80: *"),))

    found = decode_cover(encode_cover(cover))

    assert found == cover


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"{", "it cannot be read"),
        (b"[]", "no cover of version 1"),
        (b'{"version":2,"paths":[],"notCovered":[]}', "no cover of version 1"),
        (b'{"version":1,"paths":[]}', "no cover of version 1"),
        (b'{"version":1,"paths":[],"notCovered":[{"path":1,"why":""}]}', "it cannot be read"),
        (b'{"version":1,"paths":[],"notCovered":[{"path":"../a","why":"ignored"}]}', "'../a' is no path below"),
        (b'{"version":1,"paths":[{"path":"/a"}],"notCovered":[]}', "'/a' is no path below"),
    ],
)
def test_what_is_no_cover_is_refused(data: bytes, why: str) -> None:
    """A restore acts on it: half understood is not understood."""
    with pytest.raises(BadManifest, match=why):
        decode_cover(data)
