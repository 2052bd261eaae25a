"""Content that runs left behind, read again: by name, piece by piece, and with a reason where it is gone."""

import hashlib
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import Corrupt, NotFound, Refused
from tests.runtime.scene import RUN, Scene, agent_of

SIZE = 48 << 20


class Long:
    """A stream of many bytes that are nowhere; each read is a piece of it."""

    def __init__(self, size: int = SIZE) -> None:
        self._left = size

    def read(self, count: int) -> bytes:
        taken = min(count, self._left)
        self._left -= taken
        return (b"0123456789abcde\n" * (count // 16 + 1))[:taken]


def keeping(*given: tuple[str, Any], **declared: Any) -> clew.Agent:
    """A plain agent that keeps these, whatever is said to that."""

    def script(run: Any) -> Iterator[Any]:
        for name, data in given:
            try:
                yield run.artifact(name, data)
            except Refused:
                continue

    return agent_of("plain", script, **declared)


def test_an_artifact_is_read_by_its_name() -> None:
    """With what is recorded of it."""
    scene = Scene()
    scene.run(keeping(("a.csv", b"1;2"), ("b", b"3")))
    kept = scene.home().artifact(RUN, "a.csv")

    assert ("a.csv", b"1;2", "text/csv", 3) == (kept.name, kept.read(), kept.row["mediaType"], kept.row["sizeBytes"])
    assert [kept.row, "b"] == [scene.home().artifacts(RUN)[0], scene.home().artifacts(RUN)[1]["name"]]


@pytest.mark.parametrize("name", ["c", "", "../a", "a\nb"])
def test_a_name_that_nothing_has_is_told(name: str) -> None:
    """Ends with 10, and names the list."""
    scene = Scene()
    scene.run(keeping(("a", b"")))

    with pytest.raises(NotFound, match=r"has no artifact") as caught:
        scene.home().artifact(RUN, name)
    assert ("unknown_artifact", True) == (caught.value.code, "--artifacts" in caught.value.next)


def test_one_that_was_blocked_is_said_not_to_have_been_kept() -> None:
    """It is no loss, and nothing to look for."""
    scene = Scene()
    scene.run(keeping(("a", "correct-horse"), secrets=["correct-horse"]))

    with pytest.raises(Refused) as caught:
        scene.home().artifact(RUN, "a")
    assert "artifact_blocked" == caught.value.code


def test_damage_is_told_and_never_handed_out() -> None:
    """What is read is what was kept."""
    scene = Scene()
    scene.run(keeping(("a", b"content")))
    kept = scene.home().artifact(RUN, "a")
    scene.blobs.kept[kept.row["sha256"]] = b"Content"

    with pytest.raises(Corrupt) as caught:
        kept.read()
    assert "blob_corrupt" == caught.value.code
    assert [kept.row["sha256"]] == scene.home().verify(RUN)["missingBlobs"]


def test_a_large_one_is_kept_and_read_in_little_memory(tmp_path: Path) -> None:
    """A gigabyte of logs must not need a gigabyte of room in the process that keeps them."""
    home = clew.Home(tmp_path / ".clew")
    agent = keeping(("log", Long()))
    tracemalloc.start()
    home.run_sync(agent, run_id=RUN, signals=False)
    found = hashlib.sha256()
    for piece in home.artifact(RUN, "log").pieces():
        found.update(piece)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert home.artifact(RUN, "log").row["sha256"] == found.hexdigest()
    assert most < SIZE // 2
