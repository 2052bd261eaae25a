"""A home that is pruned: what goes, what stays and why, and that no run misses anything it needs."""

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clew
from clew.core.checkpoint import PathState
from clew.core.pruning import DAY_MS
from clew.core.times import format_ms
from clew.errors import Corrupt, Held, NotFound, Refused, UsageError
from clew.stores.memory import MemoryBlobStore, MemoryRunStore
from clew.testing.clock import SetClock
from tests.histories import Scribe
from tests.runtime.keeper import Keeper
from tests.runtime.scene import agent_of

LONG = "x" * 40_000
WHO: Any = {"by": "ann", "reason": "test"}


class Ground:
    """A home in files or in memory, and its clock."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.root = folder / ".clew"
        self.clock = SetClock()
        self.in_files = kind == "files"
        self.given: dict[str, Any] = {} if self.in_files else {"store": MemoryRunStore(), "blobs": MemoryBlobStore()}

    @property
    def home(self) -> clew.Home:
        """As another process opens it."""
        return clew.Home(self.root, takeover="proven", clock=self.clock, **self.given)

    def days(self, count: float) -> None:
        self.clock.advance(count * DAY_MS / 1000)

    def leave(self, run_id: str, *, pause: bool = False, artifact: bytes | None = None, answer: str = "") -> clew.Agent:
        """A run that keeps an artifact and gets a long answer, and then ends or pauses; and its agent."""
        pausing = [pause]

        def script(run: Any) -> Any:
            if artifact is not None:
                yield run.artifact("report", artifact)
            if answer:
                yield run.step("think", lambda: answer)
            if pausing.pop():
                pausing.append(False)
                run.pause("my_reason")
            pausing.append(False)
            return "done"

        agent = agent_of("plain", script)
        self.home.run_sync(agent, "go", run_id=run_id, signals=False)
        return agent

    def orphan(self, data: bytes = b"nobody's") -> str:
        """A blob whose record a death cut off."""
        return self.home.reader.blobs.put(data)


@pytest.fixture(params=["memory", "files"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Ground:
    return Ground(request.param, tmp_path)


def went(report: dict[str, Any]) -> dict[str, int]:
    return {why: counted["count"] for why, counted in report["went"].items()}


def stayed(report: dict[str, Any]) -> dict[str, int]:
    return {why: counted["count"] for why, counted in report["stayed"].items()}


# What goes.


def test_what_nobody_refers_to_goes_and_all_else_stays(ground: Ground) -> None:
    """A bare prune takes what a crash left, nothing else."""
    ground.leave("ended", artifact=b"kept", answer=LONG)
    ground.leave("going", pause=True, artifact=b"kept too")
    orphan = ground.orphan()
    report = ground.home.prune()

    assert ({"unreferenced": 1}, {"not_asked": 1, "answer": 1, "may_go_on": 1}) == (went(report), stayed(report))
    assert not ground.home.reader.blobs.has(orphan)
    assert b"kept" == ground.home.artifact("ended", "report").read()
    assert report["freedBytes"] == report["wouldFreeBytes"] == len(b"nobody's")


def test_artifacts_of_old_runs_go_by_age(ground: Ground) -> None:
    """Those of the days that are kept stay, and those of a run that may go on, however old."""
    ground.leave("going", pause=True, artifact=b"going")
    ground.leave("old", artifact=b"old")
    ground.days(30)
    ground.leave("new", artifact=b"new")
    report = ground.home.prune(keep_days=7)

    assert ({"retention": 1}, {"may_go_on": 1, "recent": 1}) == (went(report), stayed(report))
    assert (b"going", b"new") == (
        ground.home.artifact("going", "report").read(), ground.home.artifact("new", "report").read(),
    )  # fmt: skip


def test_a_quota_takes_the_oldest_first(ground: Ground) -> None:
    """Until the rest fits; and says so when it cannot."""
    for number in range(4):
        ground.leave(f"r{number}", artifact=os.urandom(1000))
        ground.days(1)
    ground.leave("going", pause=True, artifact=os.urandom(500))
    report, again = ground.home.prune(quota_bytes=2500), ground.home.prune(quota_bytes=400)

    assert (["r0", "r1"], True) == ([each["runs"][0] for each in report["dropped"]], report["quotaMet"])
    assert (["r2", "r3"], False) == ([each["runs"][0] for each in again["dropped"]], again["quotaMet"])
    assert {"before": 2500, "after": 500} == again["blobsBytes"]


def test_long_answers_go_only_when_they_are_named(ground: Ground) -> None:
    """Then they are pruned as contents are, and the run's page still opens."""
    ground.leave("r1", answer=LONG)
    first, second = ground.home.prune(keep_days=0), ground.home.prune(keep_days=0, answers=True)

    assert ({}, {"retention": 1}) == (went(first), went(second))
    assert "completed" == ground.home.result("r1").operation.state


def test_contents_are_shared_and_the_run_that_may_go_on_decides(ground: Ground) -> None:
    """Bytes are kept once for all who have them."""
    ground.leave("ended", artifact=b"same")
    ground.leave("going", pause=True, artifact=b"same")

    assert {} == went(ground.home.prune(keep_days=0))


def test_a_prune_after_a_prune_finds_nothing(ground: Ground) -> None:
    """It converges."""
    ground.leave("r1", artifact=b"old")
    ground.orphan()
    first, second = ground.home.prune(keep_days=0), ground.home.prune(keep_days=0)

    assert ({"unreferenced": 1, "retention": 1}, {}, []) == (went(first), went(second), second["files"])
    assert 0 == second["blobsBytes"]["before"]


# What is said of it afterwards.


def test_what_was_pruned_reads_as_pruned_and_is_no_damage(ground: Ground) -> None:
    """Promise 9: nothing is invented, neither corruption where a person freed room."""
    ground.leave("r1", artifact=b"old", answer=LONG)
    at = format_ms(ground.clock.now_ms())
    ground.home.prune(keep_days=0, answers=True)
    verdict = ground.home.verify("r1")
    kept = ground.home.artifact("r1", "report")

    assert ([], 2, {at}) == (verdict["missingBlobs"], len(verdict["prunedBlobs"]), set(verdict["prunedBlobs"].values()))
    assert "old" == ground.home.artifacts("r1")[0]["preview"]
    with pytest.raises(NotFound, match=f"pruned on {at}") as caught:
        kept.read()
    assert "blob_pruned" == caught.value.code


def test_what_is_lost_and_was_not_pruned_is_missing(ground: Ground) -> None:
    """Another run's prune is no excuse for it."""
    ground.leave("r1", artifact=b"same")
    ground.home.prune(keep_days=0)
    ground.leave("r2", artifact=b"same")
    digest = ground.home.artifacts("r2")[0]["sha256"]
    ground.home._parts.upkeep.drop([digest])  # type: ignore[union-attr]  # behind everybody's back
    one, two = ground.home.verify("r1"), ground.home.verify("r2")

    assert (([], [digest]), ([digest], [])) == (
        (one["missingBlobs"], list(one["prunedBlobs"])), (two["missingBlobs"], list(two["prunedBlobs"])),
    )  # fmt: skip
    with pytest.raises(NotFound) as caught:
        ground.home.artifact("r2", "report").read()
    assert "blob_missing" == caught.value.code


# Dry.


def test_a_dry_run_says_what_would_go_and_changes_nothing(ground: Ground) -> None:
    """Nor does it wait for anybody: it takes no lock."""
    ground.leave("r1", artifact=b"old")
    ground.orphan()
    before = _bytes(ground)
    report = ground.home.prune(keep_days=0, dry_run=True)
    after = _bytes(ground)
    done = ground.home.prune(keep_days=0)

    assert (before, 0, True) == (after, report["freedBytes"], report["dryRun"])
    assert report["dropped"] == done["dropped"]


def _bytes(ground: Ground) -> Any:
    if not ground.in_files:
        return dict(ground.given["blobs"].kept), dict(ground.given["store"].pruned)
    return {path: path.stat().st_mtime_ns for path in ground.root.rglob("*")}


# Alone.


def test_a_run_that_goes_on_keeps_a_prune_out_and_is_named(ground: Ground) -> None:
    """Between a blob and its record nothing says that it is needed."""
    met: list[Any] = []

    def script(run: Any) -> Any:
        ground.orphan()
        with pytest.raises(Held) as caught:
            ground.home.prune()
        met.extend([caught.value, ground.home.prune(dry_run=True)])
        yield run.artifact("a", b"nobody's")

    ground.home.run_sync(agent_of("plain", script), run_id="r1", signals=False)
    held, dry = met

    assert ("home_in_use", ["r1"], os.getpid()) == (held.code, held.facts["runs"], held.facts["owners"][0]["pid"])
    assert ["r1"] == [each["run"] for each in dry["atWork"]]
    assert b"nobody's" == ground.home.artifact("r1", "a").read()


def test_a_leg_that_a_death_left_open_does_not(ground: Ground) -> None:
    """Nobody holds the home any more; the run may go on, so it keeps what it has."""
    agent = ground.leave("r1", pause=True, artifact=b"mine")
    writer = ground.home._parts.store.open("r1")
    writer.close()
    ground.orphan()
    report = ground.home.prune(keep_days=0)
    result = ground.home.resume_sync("r1", agent, signals=False)

    assert ({"unreferenced": 1}, "completed") == (went(report), result.operation.state)


def test_an_open_leg_of_another_host_keeps_a_prune_out(tmp_path: Path) -> None:
    """Whether it goes on cannot be told from here, and a clew of before held no home."""
    ground = Ground("files", tmp_path)
    ground.leave("r1")
    # The leg that a scribe writes is of a host that is not this one.
    (ground.root / "runs" / "r9.jsonl").write_bytes(Scribe("r9").born().data)

    with pytest.raises(Held, match="r9") as caught:
        ground.home.prune()
    assert ("home_in_use", True) == (caught.value.code, "clew unlock r9" in caught.value.next)


# Refusals.


def test_a_journal_that_cannot_be_read_keeps_everything(ground: Ground) -> None:
    """Nobody knows what it refers to."""
    ground.leave("r1", artifact=b"old")
    ground.leave("r2")
    orphan = ground.orphan()
    store = ground.home._parts.store
    data = _journal(ground, "r2").replace(b'"kind":"finish"', b'"kind":"finisX"')
    _implant(ground, "r2", data)

    with pytest.raises(Corrupt, match="nothing is pruned") as caught:
        ground.home.prune(keep_days=0)
    assert ("r2", True) == (caught.value.facts["run"], ground.home.reader.blobs.has(orphan))
    assert "r2" in store.ids()


def _journal(ground: Ground, run_id: str) -> bytes:
    if ground.in_files:
        return (ground.root / "runs" / f"{run_id}.jsonl").read_bytes()
    return bytes(ground.given["store"].raw(run_id))


def _implant(ground: Ground, run_id: str, data: bytes) -> None:
    if ground.in_files:
        (ground.root / "runs" / f"{run_id}.jsonl").write_bytes(data)
    else:
        ground.given["store"].implant(run_id, data)


@pytest.mark.parametrize(
    "asked",
    [{"keep_days": -1}, {"keep_days": "7"}, {"keep_days": float("nan")}, {"quota_bytes": -1}, {"quota_bytes": 1.5},
     {"quota_bytes": True}, {"answers": True}],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(ground: Ground, asked: dict[str, Any]) -> None:
    """Before anything is looked at."""
    ground.leave("r1")

    with pytest.raises(UsageError) as caught:
        ground.home.prune(**asked)
    assert "invalid_retention" == caught.value.code


def test_where_there_is_no_home_nothing_is_made(tmp_path: Path) -> None:
    """A prune in the wrong folder leaves no trace."""
    with pytest.raises(NotFound):
        clew.Home(tmp_path / ".clew").prune()

    assert [] == os.listdir(tmp_path)


def test_a_strangers_store_is_not_pruned(tmp_path: Path) -> None:
    """What lies there, and who is at work, clew cannot know."""
    home = clew.Home(tmp_path / ".clew", store=MemoryRunStore())

    with pytest.raises(Refused) as caught:
        home.prune()
    assert "prune_unsupported" == caught.value.code


def test_an_empty_file_that_was_never_a_run_is_passed_over(tmp_path: Path) -> None:
    """A copy that was cut off at its beginning refers to nothing."""
    ground = Ground("files", tmp_path)
    ground.leave("r1")
    (ground.root / "runs" / "r2.jsonl").write_bytes(b"")

    assert {} == went(ground.home.prune())


# Cut ends.


def cut_off(ground: Ground, run_id: str) -> list[str]:
    """A run whose journal was torn once, cut and then ended; the names of what is kept of it."""
    agent = ground.leave(run_id, pause=True)
    _implant(ground, run_id, _journal(ground, run_id) + b'{"version":1,"runId":"%s","sequence":' % run_id.encode())
    with contextlib.suppress(Held):
        ground.home.resume_sync(run_id, agent, signals=False)
    return [each.name for each in ground.home._parts.upkeep.leftovers()]  # type: ignore[union-attr]  # ours has one


def test_cut_ends_go_with_the_contents_of_their_run(ground: Ground) -> None:
    """Where a record says that they were cut; a bare prune leaves them."""
    pieces = cut_off(ground, "r1")
    bare = ground.home.prune()
    ground.days(10)
    recent, old = ground.home.prune(keep_days=30), ground.home.prune(keep_days=7)

    assert (1, [], [], pieces) == (len(pieces), bare["files"], recent["files"], old["files"])
    assert "clean" == ground.home.verify("r1")["tail"]["verdict"]


def test_a_piece_that_no_record_names_stays(tmp_path: Path) -> None:
    """A death came between cutting and recording: nobody was told of these bytes yet."""
    ground = Ground("files", tmp_path)
    ground.leave("r1")
    (ground.root / "runs" / "r1" / "torn-5-0123456789ab").write_bytes(b"12345")

    assert [] == ground.home.prune(keep_days=0)["files"]


# Checkpoints.


def test_the_contents_of_a_checkpoint_stay_until_its_run_has_ended_and_go_by_age_then(tmp_path: Path) -> None:
    """As long as it may go on, its files can be put back; afterwards a restore says what became of them."""
    (tmp_path / "a").write_bytes(b"before")
    keeper = Keeper(tmp_path)
    name = keeper.edit("a", b"after")
    keeper.end("paused")
    first = went(keeper.home.prune(keep_days=0)), keeper.restore(name, "a"), (tmp_path / "a").read_bytes()
    keeper.home.abort("r1", **WHO)
    report = keeper.home.prune(keep_days=0)
    verdict = keeper.home.verify("r1")
    (tmp_path / "a").write_bytes(b"after")
    [gone] = keeper.report(name, "a")["paths"]

    assert (({}, {"a": "restored"}, b"before"), {"retention": 2}) == (first, went(report))
    assert ([], 2) == (verdict["missingBlobs"], len(verdict["prunedBlobs"]))
    assert ("conflict", True, b"after") == (
        gone["outcome"],
        "was pruned on" in gone["why"],
        (tmp_path / "a").read_bytes(),
    )


def test_a_content_of_a_checkpoint_that_is_lost_is_damage(tmp_path: Path) -> None:
    """Nothing says that anybody took it away on purpose; what a tool only expected was never there."""
    (tmp_path / "a").write_bytes(b"before")
    keeper = Keeper(tmp_path)
    keeper.edit("a", b"after", expects={"a": PathState("file", "e" * 64, 5, 0o644)})
    keeper.end()
    before = keeper.home.verify("r1")["missingBlobs"]
    lost = hashlib.sha256(b"before").hexdigest()
    keeper.home._parts.upkeep.drop([lost])  # type: ignore[union-attr]  # behind everybody's back

    assert ([], [lost]) == (before, keeper.home.verify("r1")["missingBlobs"])


# Whatever was there before.

DEEDS = st.lists(
    st.tuples(st.booleans(), st.sampled_from([None, b"a", b"b" * 5000]), st.sampled_from(["", LONG, LONG + "y"])),
    min_size=1, max_size=5,
)  # fmt: skip
ASKED = st.fixed_dictionaries({}, optional={"keep_days": st.integers(0, 5), "quota_bytes": st.integers(0, 50_000)})


@settings(max_examples=40, deadline=None)
@given(deeds=DEEDS, asked=ASKED, answers=st.booleans())
def test_every_run_that_may_go_on_still_replays(
    tmp_path_factory: pytest.TempPathFactory, deeds: list[Any], asked: dict[str, Any], answers: bool
) -> None:
    """Whatever is pruned: no paused run misses a byte, no verdict gets worse, and nothing is called damage."""
    ground = Ground("memory", tmp_path_factory.mktemp("ground"))
    agents: dict[str, Any] = {}
    for number, (pause, artifact, answer) in enumerate(deeds):
        agents[f"r{number}"] = (pause, ground.leave(f"r{number}", pause=pause, artifact=artifact, answer=answer))
        ground.orphan(bytes([number]))
        ground.days(1)
    before = {run_id: ground.home.verify(run_id, deep=True) for run_id in agents}
    ground.home.prune(**asked, answers=answers and bool(asked))
    after = {run_id: ground.home.verify(run_id, deep=True) for run_id in agents}

    assert before == {run_id: verdict | {"prunedBlobs": {}} for run_id, verdict in after.items()}
    assert not any(after[run_id]["prunedBlobs"] for run_id, (pause, _) in agents.items() if pause)
    for run_id, (pause, agent) in agents.items():
        if pause:
            assert "completed" == ground.home.resume_sync(run_id, agent, signals=False).operation.state


@pytest.mark.parametrize("limit", [(1, None), (None, 1)])
def test_the_answer_of_a_paused_run_is_what_its_agent_is_told_again(ground: Ground, limit: Any) -> None:
    """Promise 2: a committed step is skipped only with its answer."""
    told: list[int] = []
    pausing = [True]

    def script(run: Any) -> Any:
        answer = yield run.step("think", lambda: LONG)
        told.append(len(answer))
        if pausing:
            pausing.clear()
            run.pause("my_reason")

    agent = agent_of("plain", script)
    ground.home.run_sync(agent, run_id="r1", signals=False)
    ground.days(1000)
    ground.home.prune(keep_days=limit[0], quota_bytes=limit[1], answers=True)
    ground.home.resume_sync("r1", agent, signals=False)

    assert [len(LONG), len(LONG)] == told
