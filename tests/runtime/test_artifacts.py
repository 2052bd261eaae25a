"""Artifacts of living runs: kept before they are recorded, once however often a run goes on, never with a secret."""

import asyncio
import hashlib
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.artifacts import artifact_rows
from clew.stores.base import Kept
from clew.stores.memory import MemoryBlobStore
from clew.testing.crash import Crash, CrashPoint
from tests.runtime.scene import RUN, WAYS, Scene, agent_of, paying

SECRET = "correct-horse-battery"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def told(scene: Scene) -> list[tuple[str, str]]:
    """Name and status of every recorded artifact, as the journal has them."""
    return [(event["artifactId"], event["status"]) for event in scene.said("artifact_created")]


def keeping(way: str, *given: tuple[Any, ...], **declared: Any) -> clew.Agent:
    """An agent that keeps these, each a name and data, and returns what it got or the code of what was raised."""

    def script(run: Any) -> Any:
        got: list[Any] = []
        for name, data, *media_type in given:
            made = data() if callable(data) else data
            try:
                kept = yield run.artifact(name, made, media_type=media_type[0] if media_type else None)
            except clew.ClewError as fault:
                got.append(fault.code)
            else:
                got.append([kept.name, kept.sha256[:8], kept.size_bytes, kept.media_type])
        return got

    return agent_of(way, script, **declared)


class Full(MemoryBlobStore):
    """A disk without room, as long as it is full."""

    full = True

    def keep(self, pieces: Iterable[bytes]) -> Kept:
        if self.full:
            for _ in pieces:
                raise clew.Storage("cannot write 'blobs': ENOSPC", code="disk_full", next="Free space.", path="blobs")
        return super().keep(pieces)


# What is kept.


@pytest.mark.parametrize("way", WAYS)
def test_an_artifact_is_kept_recorded_and_told(way: str) -> None:
    """Bytes, text, a file and a stream alike; what it is follows from the name."""
    scene = Scene()
    given = [("a.csv", b"1;2"), ("b", "ä"), ("c", lambda: io.BytesIO(b"x" * 3_000_000)), ("d.txt", b"", "text/html")]
    result = scene.run(keeping(way, *given))

    assert [
        ["a.csv", digest(b"1;2")[:8], 3, "text/csv"], ["b", digest("ä".encode())[:8], 2, "text/plain"],
        ["c", digest(b"x" * 3_000_000)[:8], 3_000_000, "application/octet-stream"],
        ["d.txt", digest(b"")[:8], 0, "text/html"],
    ] == result.output  # fmt: skip
    assert b"1;2" == scene.blobs.get(digest(b"1;2"))


def test_the_snapshot_and_the_finish_have_it() -> None:
    """W25: also what was kept in an earlier leg."""
    scene = Scene()
    result = scene.run(keeping("plain", ("a.txt", "hello")))
    row = result.snapshot["artifacts"][0]
    finish = scene.lines[-1]["payload"]["artifacts"][0]

    assert ("a.txt", "hello", 5) == (row["name"], row["preview"], row["sizeBytes"])
    assert {name: value for name, value in row.items() if name not in ("name", "preview")} == finish


@pytest.mark.parametrize("relative", [True, False])
def test_a_file_is_read_from_the_workspace_or_where_it_is(tmp_path: Path, relative: bool) -> None:
    """A tool may have changed the current folder meanwhile."""
    (tmp_path / "out.bin").write_bytes(b"\0\1")
    home = clew.Home.memory(workspace=tmp_path)
    path = Path("out.bin") if relative else tmp_path / "out.bin"
    result = home.run_sync(keeping("plain", ("out", path)), run_id=RUN, signals=False)

    assert [["out", digest(b"\0\1")[:8], 2, "application/octet-stream"]] == result.output


# What is refused, with nothing recorded.


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("a/b", b"", "invalid_artifact_name"), ("a", 7, "invalid_artifact_data"),
        ("a", "\ud800", "invalid_artifact_data"),
        ("a", lambda: io.StringIO("text"), "invalid_artifact_data"), ("a", Path("/nowhere/x"), "invalid_artifact_data"),
        ("ghp_" + "A" * 36, b"", "artifact_blocked"),
    ],
    ids=["path", "number", "surrogate", "text stream", "no file", "secret name"],
)  # fmt: skip
def test_bad_input_is_refused_and_nothing_changed(way: str, name: str, data: Any, code: str) -> None:
    """With a code and a next step; the run goes on."""
    scene = Scene()
    result = scene.run(keeping(way, (name, data)))

    assert ([code], [], {}, "completed") == (result.output, told(scene), scene.blobs.kept, result.operation.state)


def test_a_media_type_that_is_none_is_refused() -> None:
    """A list must be able to show it."""
    scene = Scene()

    assert ["invalid_media_type"] == scene.run(keeping("plain", ("a", b"", "text"))).output


@pytest.mark.parametrize("way", WAYS)
def test_one_that_cannot_be_kept_raises_and_nothing_is_recorded(way: str) -> None:
    """No record may name bytes that are nowhere; and the run is not broken by it."""
    scene = Scene(blobs=Full())
    result = scene.run(keeping(way, ("a.txt", b"hello"), ("b", b"")))

    assert ["disk_full", "b"] == [result.output[0], result.output[1][0]]
    assert [("b", "stored")] == told(scene)


def test_what_cannot_be_kept_is_named() -> None:
    """An agent that lets it through pauses, and its person reads which one."""
    scene = Scene(blobs=Full())

    def script(run: Any) -> Any:
        yield run.artifact("a.txt", b"hello")

    result = scene.run(agent_of("async", script))
    message = result.snapshot["outcome"]["error"]["message"]

    assert "agent_error" == result.reason
    assert message.startswith("Storage: artifact 'a.txt' cannot be kept, and nothing of it is recorded: cannot write")


# Secrets.


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("data", [f"a {SECRET}", b"\0\1" + SECRET.encode(), lambda: io.BytesIO(SECRET.encode() * 9)])
def test_a_secret_keeps_it_out_and_that_is_recorded(way: str, data: Any) -> None:
    """The agent is told, for its artifact is nowhere; neither the blobs nor the journal have anything of it."""
    scene = Scene()
    result = scene.run(keeping(way, ("a", data), secrets=[SECRET]))

    assert (["artifact_blocked"], [("a", "blocked")], {}) == (result.output, told(scene), scene.blobs.kept)
    assert SECRET.encode() not in scene.memory.raw(RUN)


def test_the_size_of_a_blocked_stream_is_that_of_all_of_it() -> None:
    """Where the secret stands in it says nothing of how long it is."""
    scene = Scene()
    scene.run(keeping("plain", ("a", lambda: io.BytesIO(SECRET.encode() + bytes(3_000_000))), secrets=[SECRET]))

    assert 3_000_000 + len(SECRET) == scene.said("artifact_created")[0]["sizeBytes"]


def test_without_its_secret_it_may_be_kept_later() -> None:
    """The agent that was mended, and the one that tries again."""
    scene = Scene()
    result = scene.run(keeping("plain", ("a", SECRET), ("a", SECRET), ("a", "clean"), secrets=[SECRET]))

    assert [("a", "blocked"), ("a", "stored")] == told(scene)
    assert ["artifact_blocked", "artifact_blocked", ["a", digest(b"clean")[:8], 5, "text/plain"]] == result.output


# Once.


@pytest.mark.parametrize("way", WAYS)
def test_the_same_again_adds_nothing_and_another_content_is_refused(way: str) -> None:
    """In one run a name stands for one content."""
    scene = Scene()
    result = scene.run(keeping(way, ("a", b"1"), ("a", b"1"), ("a", b"2"), ("b", b"1")))

    assert [("a", "stored"), ("b", "stored")] == told(scene)
    assert ["a", "a", "artifact_conflict", "b"] == [got if type(got) is str else got[0] for got in result.output]
    assert digest(b"2") not in scene.blobs.kept


def test_artifacts_that_are_given_at_once_come_one_after_another() -> None:
    """Two tasks that keep the same must not make two records of it."""
    scene = Scene()

    async def many(run: clew.Run, prompt: Any) -> list[str]:
        made = await asyncio.gather(*(run.artifact("a", b"same") for _ in range(5)), run.artifact("b", b"other"))
        return [kept.name for kept in made]

    result = scene.run(clew.Agent(many, name="agent"))

    assert ["a"] * 5 + ["b"] == result.output
    assert [("a", "stored"), ("b", "stored")] == told(scene)


@pytest.mark.parametrize("way", ["async", "plain"])
@pytest.mark.parametrize("keep", [0, 200, None])
def test_a_run_that_dies_at_any_append_has_each_artifact_once(way: str, keep: int | None) -> None:
    """Between blob and record, in the record, behind it: the replay comes to the same place and makes it true."""
    number = 0
    while True:
        number += 1
        scene = Scene()
        point = CrashPoint(number, keep)
        pay = paying(scene, way, probe=scene.bank.find, in_doubt_s=1)

        def script(run: Any, pay: Any = pay) -> Any:
            yield run.artifact("before.txt", b"1")
            yield run.call(pay, order="a")
            yield run.artifact("after.txt", io.BytesIO(b"2" * 100))
            return "done"

        agent = agent_of(way, script, pay)
        try:
            scene.run(agent, point=point)
        except (Crash, clew.Storage):
            scene.die()
            if scene.state.finish is None:
                scene.resume(agent)
        if not point.struck:
            break

        assert [("before.txt", "stored"), ("after.txt", "stored")] == told(scene)
        assert (["a"], "completed") == (list(scene.bank.orders.elements()), scene.state.state)
        assert all(scene.blobs.has(row["sha256"]) for row in artifact_rows(scene.state))
    assert number > 4


def test_a_lost_content_is_kept_again_by_the_replay_that_brings_it() -> None:
    """Here it is, so why let it be missing?"""
    scene = Scene()

    def script(run: Any, stop: list[int] = [1]) -> Any:  # noqa: B006  # raised in the first leg only
        yield run.artifact("a", b"content")
        if stop:
            stop.clear()
            raise ValueError("a bug")

    agent = agent_of("plain", script)
    scene.run(agent)
    scene.blobs.kept.clear()
    scene.resume(agent)

    assert {digest(b"content"): b"content"} == scene.blobs.kept


def test_an_agent_that_makes_another_content_on_resume_is_told_so() -> None:
    """It read the clock, or the order of a set: the recorded one stands, and nothing is made twice."""
    scene = Scene()
    contents = [b"monday", b"tuesday"]

    def script(run: Any) -> Any:
        yield run.artifact("report", contents.pop(0))
        if contents:
            raise ValueError("a bug")

    agent = agent_of("plain", script)
    scene.run(agent)
    result = scene.resume(agent)

    assert ("agent_error", [("report", "stored")]) == (result.reason, told(scene))
    assert "with other content" in result.snapshot["outcome"]["error"]["message"]


def test_behind_a_closed_gate_nothing_is_kept() -> None:
    """A run that pauses takes no more; what was written before its record is nobody's, and a prune frees it."""
    scene = Scene()

    def script(run: Any) -> Any:
        try:
            run.pause("my_reason")
        except clew.Stop:
            yield run.artifact("a", b"late")

    result = scene.run(agent_of("async", script))

    assert ("my_reason", []) == (result.reason, told(scene))
