"""Calls that change files, through a living run: what is kept before, what is seen behind, what files are asked."""

import asyncio
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import clew
from clew import toolkit
from clew.core.checkpoint import ABSENT, PathState
from clew.errors import Storage
from clew.runtime.checkpoint import itself, lands, probe_of
from clew.runtime.gate import Gate
from clew.runtime.tickets import Ticket
from clew.stores.base import COVER_LIMITS
from clew.stores.memory import MemoryBlobStore
from clew.stores.processes import LocalProcesses
from clew.stores.workspace import FileWorkspace
from clew.testing.crash import Crash, CrashPoint
from tests.histories import Scribe, facts, started
from tests.runtime.keeper import standing
from tests.runtime.scene import RUN, WAYS, agent_of, awaited_bodies, lose_the_line
from tests.runtime.study import Study, putting, writing

OPENED = ["tool_call", "capability_resolved", "kept", "started"]
RETURNED = ["step_output", "committed", "left", "tool_result"]


def fail(*_: Any, **__: Any) -> Any:
    raise Storage("the disk is full", code="storage_full", next="Make room.")


@pytest.fixture
def study(tmp_path: Path) -> Study:
    made = Study(tmp_path)
    made.file().write_text("old")
    return made


# What is kept, and when.


@pytest.mark.parametrize("way", WAYS)
def test_the_body_runs_when_what_it_changes_is_kept(study: Study, way: str) -> None:
    """#149: by its capability, not by its name; #144: bound to its call."""
    put = writing(study, way)
    result = study.run(putting(study, way, put))
    found = study.checkpoints[0]

    assert ("completed", ["wrote new"], [True]) == (result.operation.state, result.output, study.promised)
    assert [*OPENED, *RETURNED, "agent_end"] == study.kinds
    assert ("k1", "put", f"{RUN}:put-1:c1", 1) == (found.checkpoint_id, found.tool, found.key, found.attempt)
    assert ["required"] == [row["capability"]["checkpoint"] for row in study.said("capability_resolved")]


def test_both_contents_can_be_had_again(study: Study) -> None:
    """#145: what is put back is the very bytes, and a diff needs both sides."""
    study.run(putting(study, "plain", writing(study)))
    found = study.checkpoints[0]
    before, after = (found.before or {})["note"], (found.after or {})["note"]

    assert (b"old", b"new") == (study.blobs.get(before.sha256), study.blobs.get(after.sha256))


def test_a_new_file_was_absent(study: Study) -> None:
    """#146: to put it back is to remove it."""
    study.run(putting(study, "plain", writing(study), path="fresh"))

    assert [{"fresh": ABSENT}] == [found.before for found in study.checkpoints]


def test_each_distinct_path_is_kept_once(study: Study) -> None:
    """#150: a call may name several, and one of them twice."""

    def swap(left: str, right: list[str]) -> None:
        """Nothing."""

    tool = clew.Tool(swap, effect="workspace", paths=("left", "right"))
    study.run(agent_of("plain", lambda run: (yield run.call(tool, left="note", right=["b", "note"])), tool))

    assert [["b", "note"]] == [sorted(found.before or {}) for found in study.checkpoints]


def test_a_function_may_say_which_paths(study: Study) -> None:
    """Names of files follow from arguments."""

    def note(day: str, ending: str = "txt") -> None:
        (study.folder / f"{day}.{ending}").write_text("x")

    tool = clew.Tool(note, effect="workspace", paths=lambda day, ending: [f"{day}.{ending}"])
    study.run(agent_of("plain", lambda run: (yield run.call(tool, day="monday")), tool))

    assert [["monday.txt"]] == [sorted(found.after or {}) for found in study.checkpoints]


def test_a_call_without_paths_appends_what_it_always_did(study: Study) -> None:
    """Who keeps nothing pays nothing; and its capability says that nobody can take it back."""
    put = writing(study, paths=None, expects=None)
    study.run(putting(study, "plain", put))

    assert ["tool_call", "capability_resolved", "started", "step_output", "committed", "tool_result"] == study.kinds[:6]
    assert "unsupported" == study.said("capability_resolved")[0]["capability"]["checkpoint"]


def test_a_whole_workspace_is_kept_where_no_path_is_known(study: Study) -> None:
    """#148: a command's changes are listed afterwards, and what is not covered is said."""

    def build(call: clew.Call) -> None:
        study.file("out").write_text("made")
        study.file().unlink()

    study.file(".git").mkdir()
    tool = clew.Tool(build, effect="process", paths=clew.WORKSPACE)
    study.run(agent_of("plain", lambda run: (yield run.call(tool)), tool))
    found = study.checkpoints[0]

    assert (["note", "out"], ["file", "absent"], ["absent", "file"]) == (
        sorted(found.before or {}),
        [state.kind for _, state in sorted((found.before or {}).items())],
        [state.kind for _, state in sorted((found.after or {}).items())],
    )
    assert found.whole is not None
    assert ({"path": ".git", "why": "kept_out"},) == found.not_covered


@pytest.mark.parametrize(
    "tool", [toolkit.write_file, toolkit.edit_file, toolkit.delete_file], ids=lambda tool: tool.name
)
def test_what_a_person_saves_behind_the_look_is_not_written_over(
    study: Study, tool: clew.Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was kept nowhere: the agent is told, looks again, and decides anew; putting back takes nothing away either."""
    called = Gate.call_of

    def call_of(gate: Gate, ticket: Any, attempt: int) -> clew.Call:
        study.file().write_text("old, and mine")
        return called(gate, ticket, attempt)

    monkeypatch.setattr(Gate, "call_of", call_of)
    given: dict[str, Any] = {"write_file": {"content": "new"}, "edit_file": {"old": "old", "new": "new"}}

    def script(run: Any) -> Any:
        try:
            yield run.call(tool, path="note", **given.get(tool.name, {}))
        except clew.ToolError as told:
            return told.facts["kind"], "changed by somebody else" in told.message

    result = study.run(agent_of("plain", script, tool))
    report = study.home().restore(RUN, "k1", by="ann", reason="no")

    assert (["nothing_happened", True], "old, and mine") == (result.output, study.text())
    assert "restored" not in {each["outcome"] for each in report["paths"]}


# A folder that is named.


def changing(study: Study, deed: Callable[[], Any], **declared: Any) -> clew.Agent:
    """An agent with one call that may change the folder `d`."""

    def change(path: str) -> None:
        deed()

    tool = clew.Tool(change, **{"effect": "workspace", "paths": ("path",), **declared})
    return agent_of("plain", lambda run: (yield run.call(tool, path="d")), tool)


@pytest.fixture
def tree(study: Study) -> Study:
    for name in ("d/sub", "d/.git"):
        study.file(name).mkdir(parents=True)
    for name in ("d/a", "d/sub/b", "d/.git/c"):
        study.file(name).write_text(f"old {name}")
    study.file("d/link").symlink_to("a")
    os.mkfifo(study.file("d/pipe"))
    return study


def outcomes(study: Study) -> dict[str, str]:
    report = study.home().restore(RUN, "k1", by="ann", reason="no")
    return {each["path"]: each["outcome"] for each in report["paths"]}


def test_a_folder_is_put_back_with_all_that_was_in_it(tree: Study) -> None:
    """A folder that comes back empty is not as it was before, whatever is said of it."""

    def rebuild() -> None:
        shutil.rmtree(tree.file("d"))
        tree.file("d/new").mkdir(parents=True)
        tree.file("d/new/file").write_text("new")

    tree.file("d/pipe").unlink()
    shutil.rmtree(tree.file("d/.git"))
    before = standing(tree.folder)
    tree.run(changing(tree, rebuild))

    assert {"restored"} == {*outcomes(tree).values()} - {"unchanged"}
    assert before == standing(tree.folder)


def test_what_cannot_be_kept_of_a_folder_is_said(tree: Study) -> None:
    """Nobody shall find out after the call that it is gone."""
    tree.run(changing(tree, lambda: None))

    assert ({"path": "d/.git", "why": "kept_out"}, {"path": "d/pipe", "why": "no_file"}) == (
        tree.checkpoints[0].not_covered
    )


def test_a_folder_that_a_call_makes_goes_with_what_the_call_put_into_it(study: Study) -> None:
    """And stays with what a person put into it since."""

    def make() -> None:
        study.file("d/sub").mkdir(parents=True)
        study.file("d/sub/b").write_text("new")
        study.file("d/a").write_text("new")

    study.run(changing(study, make))
    study.file("d/mine").write_text("mine")

    assert {"d": "conflict", "d/a": "restored", "d/sub": "restored", "d/sub/b": "restored"} == outcomes(study)
    assert ["mine"] == [each.name for each in study.file("d").iterdir()]


def test_a_folder_on_the_way_is_not_taken_for_the_calls(study: Study) -> None:
    """What a person puts beside the file that was named is no work of the call."""

    def make_way() -> None:
        study.file("way").mkdir()
        study.file("way/mine").write_text("mine")

    study.run(putting(study, "plain", writing(study, first=make_way), path="way/a"))

    assert ({"way": "conflict", "way/a": "restored"}, "mine") == (outcomes(study), study.text("way/mine"))


@pytest.mark.parametrize("name", ["d/a", "d/sub/b", "d/sub/new"])
def test_a_call_that_died_amid_its_folder_is_not_begun_again(tree: Study, name: str) -> None:
    """One file in it is other than before: it did not do nothing, and a person looks at what it did."""
    agent = changing(tree, lambda: tree.file(name).write_text("half"))
    with pytest.raises(Storage):
        tree.run(agent, point=CrashPoint(2, 0))
    tree.die()
    result = tree.resume(agent)
    (found,) = tree.home().diff(RUN)

    assert ("paused", "unknown_effect") == (result.operation.state, result.reason)
    assert name in {each.path for each in found.paths}


def test_a_call_may_say_how_it_will_leave_a_folder(study: Study) -> None:
    """Also what it will make in it: then the files prove that it happened."""
    study.file("d").mkdir()

    def make() -> None:
        study.file("d/sub").mkdir()
        study.file("d/sub/new").write_text("new")

    agent = changing(study, make, expects=lambda before, path: clew.Expected({f"{path}/sub/new": "new"}, None))
    with pytest.raises(Storage):
        study.run(agent, point=CrashPoint(2, 0))
    study.die()

    assert "completed" == study.resume(agent).operation.state


def command(study: Study, deed: Callable[[], Any]) -> clew.Agent:
    """An agent that runs one command, which may change anything."""
    tool = clew.Tool(deed, name="shell", effect="process", paths=clew.WORKSPACE)
    return agent_of("plain", lambda run: (yield run.call(tool)), tool)


@pytest.mark.parametrize("rule", ["note", "*", "/note", "folder"])
def test_a_command_hides_nothing_by_an_ignore_file(study: Study, rule: str) -> None:
    """What it changed was covered before it began, so it is listed and can be put back."""
    study.file("folder").mkdir()
    study.file("folder/in").write_text("old")

    def build() -> None:
        study.file(".gitignore").write_text(f"{rule}\n")
        study.file().write_text("new")
        study.file("folder/in").write_text("new")

    study.run(command(study, build))
    report = study.home().restore(RUN, "k1", by="ann", reason="no")

    assert {"note", "folder/in"} <= {each["path"] for each in report["paths"] if each["outcome"] == "restored"}
    assert ("old", "old") == (study.text(), study.text("folder/in"))


def test_a_file_that_grows_beyond_the_bound_can_be_put_back(study: Study) -> None:
    """Its content of before is kept; that of now need not be."""
    study.run(command(study, lambda: os.truncate(study.file(), COVER_LIMITS.file_bytes + 1)))
    report = study.home().restore(RUN, "k1", by="ann", reason="no")

    assert (["restored"], "old", ()) == (
        [each["outcome"] for each in report["paths"]],
        study.text(),
        study.checkpoints[0].not_covered,
    )


# What does not start.


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("path", ["../note", "/etc/hosts", ".git/config", ".clew/home.json"])
def test_a_refused_path_is_an_answer_and_nothing_started(study: Study, way: str, path: str) -> None:
    """#154: outside the workspace nothing is touched, and the agent can go on."""
    put = writing(study, way)

    def script(run: Any) -> Any:
        try:
            yield run.call(put, path=path, text="new")
        except clew.ToolError as told:
            return told.facts["kind"], path in told.message

    assert ["nothing_happened", True] == study.run(agent_of(way, script, put)).output
    assert ([], ["tool_call", "capability_resolved", "not_started", "step_output", "tool_result", "agent_end"]) == (
        study.starts, study.kinds,
    )  # fmt: skip


def refused(study: Study, tool: clew.Tool, **arguments: Any) -> str:
    """What the agent is told of a call that did not start."""

    def script(run: Any) -> Any:
        try:
            yield run.call(tool, **arguments)
        except clew.ToolError as told:
            return told.message

    message = study.run(agent_of("plain", script, tool)).output
    assert ([], []) == (study.starts, study.checkpoints)
    return str(message)


@pytest.mark.parametrize(
    ("declared", "path", "words"),
    [
        ({}, None, "it names no path"),
        ({}, 7, "argument 'path' gives no path: 7"),
        ({"paths": lambda path, text: 1 / 0}, "note", "paths of 'put' raised ZeroDivisionError"),
        ({"expects": lambda before, path, text: 1 / 0}, "note", "expects of 'put' raised ZeroDivisionError"),
        ({"expects": lambda before, path, text: {"else": text}}, "note", "'else', which is not among its paths"),
        ({"expects": lambda before, path, text: {path: 7}}, "note", "expects says int of 'note'"),
        ({"expects": lambda before, path, text: text}, "note", "which is no mapping of paths"),
        ({"expects": lambda before, path, text: {path: "\ud800"}}, "note", "a text that is not UTF-8"),
        ({"expects": lambda before, path, text: clew.Expected({}, object())}, "note", "result"),
        ({}, "n" * 2_000_000, "more than one record holds"),
    ],
)
def test_what_a_tool_cannot_say_is_told_before_its_body_runs(
    study: Study, declared: dict[str, Any], path: Any, words: str
) -> None:
    """#154: without a path there is nothing to keep, and nothing is begun."""
    put = writing(study, **declared)
    message = refused(study, put, path=path, text="new")

    assert words in message or "no file can have this path" in message


def test_what_a_tool_could_not_say_for_want_of_memory_is_asked_again(study: Study) -> None:
    """It is no word of the tool: as an answer it would stand for ever, and with a few bytes more all was well."""
    short = [MemoryError()]

    def paths(path: str, text: str) -> list[str]:
        if short:
            raise short[0]
        return [path]

    put = writing(study, paths=paths)
    paused = study.run(putting(study, "plain", put))
    short.clear()
    resumed = study.resume(putting(study, "plain", put))

    assert ("paused", "checkpoint_failed") == (paused.operation.state, paused.reason)
    assert ("completed", "new", ["new"]) == (resumed.operation.state, study.text(), study.starts)


def test_a_path_with_a_secret_in_it_is_no_path_for_a_record(study: Study) -> None:
    """Promise: what the agent said is secret stands in no journal."""
    put = writing(study)

    def script(run: Any) -> Any:
        try:
            yield run.call(put, path="sesame-note", text="x")
        except clew.ToolError as told:
            return told.message

    result = study.run(agent_of("plain", script, put, secrets=["sesame"]))

    assert ("has a secret in it" in result.output, b"sesame" in study.memory.raw(RUN)) == (True, False)


class FullBlobs(MemoryBlobStore):
    """Keeps nothing while it is full."""

    full = True

    def keep(self, pieces: Any) -> Any:
        return fail() if self.full else super().keep(pieces)

    def put(self, data: bytes) -> str:
        return fail() if self.full else super().put(data)


@pytest.mark.parametrize("way", WAYS)
def test_without_a_checkpoint_nothing_starts_and_the_run_pauses(tmp_path: Path, way: str) -> None:
    """#159, #153: what could not be put back is not begun; and it is when there is room again."""
    study = Study(tmp_path, blobs=FullBlobs())
    study.file().write_text("old")
    put = writing(study, way)
    paused = study.run(putting(study, way, put))
    untouched, started = study.text(), list(study.starts)
    study.blobs.full = False
    resumed = study.resume(putting(study, way, put))

    assert ("paused", "checkpoint_failed", 22, "old", []) == (
        paused.operation.state, paused.reason, paused.exit_code, untouched, started,
    )  # fmt: skip
    assert ("completed", "new", ["new"]) == (resumed.operation.state, study.text(), study.starts)
    assert "the disk is full" in str(study.said("error")[0]["message"])


# What is seen behind it.


def test_what_could_not_be_looked_at_hides_no_answer(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """The body returned: that is known, whatever became of its files."""
    put = writing(study, then=lambda: monkeypatch.setattr(FileWorkspace, "stand", fail))
    result = study.run(putting(study, "plain", put))

    assert (["wrote new"], ["step_output", "committed", "tool_result"]) == (result.output, study.kinds[4:7])


def test_what_cannot_be_kept_behind_it_is_still_told(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """How the file was left is worth knowing, even where its bytes are not there for a diff."""
    put = writing(study, then=lambda: monkeypatch.setattr(MemoryBlobStore, "keep", fail))
    study.run(putting(study, "plain", put))

    assert ["file"] == [state.kind for state in (study.checkpoints[0].after or {}).values()]
    assert [] == study.home().verify(RUN, deep=True)["missingBlobs"]


def test_what_a_command_left_above_the_bound_is_not_said_to_be_kept(study: Study) -> None:
    """A look at the run later would miss what nobody ever had."""
    study.run(command(study, lambda: os.truncate(study.file(), COVER_LIMITS.file_bytes + 1)))

    said = [line["payload"].get("unkept") for line in study.lines if line["kind"] == "checkpoint"]
    assert ([None, ["note"]], []) == (said, study.home().verify(RUN)["missingBlobs"])


def test_a_body_that_may_still_be_at_work_is_not_looked_at(study: Study) -> None:
    """Its time was up and it writes on: what is seen now is not how it leaves the file."""
    go_on = threading.Event()
    put = writing(study, timeout_s=0.01, first=go_on.wait)
    with awaited_bodies():
        result = study.run(putting(study, "plain", put))
        go_on.set()

    assert ("paused", [*OPENED, "unknown", "error"]) == (result.operation.state, study.kinds)


def test_a_body_that_left_a_process_behind_is_not_looked_at(study: Study) -> None:
    """What it began goes on writing: this is not how the attempt leaves its files."""
    left: list[subprocess.Popen[bytes]] = []

    def begin(call: clew.Call, path: str) -> None:
        left.append(subprocess.Popen(["cat"], env=call.environment(), stdin=subprocess.PIPE, start_new_session=True))
        lose_the_line()

    tool = clew.Tool(begin, effect="workspace", paths=("path",))
    study.run(agent_of("plain", lambda run: (yield run.call(tool, path="note")), tool))
    started = len(left)
    left[0].communicate(timeout=60)

    assert 1 == started
    assert [*OPENED, "unknown", "error"] == study.kinds
    assert "a process of this attempt still lives" in study.said("error")[0]["message"]


@pytest.mark.parametrize("way", WAYS)
def test_a_body_that_raised_is_looked_at(study: Study, way: str) -> None:
    """What it had done by then can be put back."""
    put = writing(study, way, then=lose_the_line, expects=None)
    result = study.run(putting(study, way, put))

    assert ("unknown_effect", [*OPENED, "unknown", "left"]) == (result.reason, study.kinds[:6])


# What the files are asked, in the leg itself.


@pytest.mark.parametrize("way", WAYS)
def test_a_body_that_raised_when_all_was_done_has_happened(study: Study, way: str) -> None:
    """DESIGN §5: the file stands as it said it would; the answer is the one that was announced."""
    put = writing(study, way, then=lose_the_line)
    result = study.run(putting(study, way, put))
    review = study.said("effect_review")[0]

    assert (["wrote new"], ["new"], "checkpoint", "happened") == (
        result.output, study.starts, review["source"], review["outcome"],
    )  # fmt: skip


def test_what_a_secret_tool_would_return_is_not_announced(study: Study) -> None:
    """Its answer is handed on and never stored."""
    put = writing(study, secret=True, expects=lambda before, path, text: clew.Expected({path: text}, "sesame"))
    study.run(putting(study, "plain", put))

    assert b"sesame" not in study.memory.raw(RUN)


def test_a_long_result_is_not_announced(study: Study) -> None:
    """A record is no place for it; the effect is known all the same."""
    put = writing(study, expects=lambda before, path, text: clew.Expected({path: text}, "x" * 20_000))
    study.run(putting(study, "plain", put))

    assert clew.Expected({}).result is study.checkpoints[0].result


@pytest.mark.parametrize("way", WAYS)
def test_a_body_that_raised_before_it_wrote_starts_once_more(study: Study, way: str) -> None:
    """Every path is as it was: it did not happen, and that is proved."""
    fates = iter([True, False])
    put = writing(study, way, first=lambda: lose_the_line() if next(fates) else None)
    result = study.run(putting(study, way, put))

    assert ("completed", ["new", "new"], "new") == (result.operation.state, study.starts, study.text())
    assert ["k1", "k2"] == [found.checkpoint_id for found in study.checkpoints]


def test_a_file_that_stands_neither_way_waits_for_a_person(study: Study) -> None:
    """Half of it was written: nobody guesses."""

    def half_of_it() -> None:
        study.file().write_text("ne")
        lose_the_line()

    put = writing(study, then=half_of_it)
    result = study.run(putting(study, "plain", put))

    assert ("unknown_effect", "ne") == (result.reason, study.text())


def test_an_effect_outside_is_not_asked_of_its_files(study: Study) -> None:
    """The letter is posted, whatever became of the copy."""
    put = writing(study, effect="external", then=lose_the_line)
    result = study.run(putting(study, "plain", put))

    assert ("unknown_effect", []) == (result.reason, study.said("effect_review"))


def test_its_own_probe_is_asked_instead(study: Study) -> None:
    """Who wrote one knows better."""
    put = writing(study, then=lose_the_line, probe=lambda call: clew.Happened("mine"))
    result = study.run(putting(study, "plain", put))

    assert (["mine"], "probe") == (result.output, study.said("effect_review")[0]["source"])


# What the files are asked after a death.


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("keep", [0, 700, 1400, 2100, 2800, None], ids=str)
def test_whatever_append_it_dies_at_the_file_is_written_once(tmp_path: Path, way: str, keep: int | None) -> None:
    """#134: the files settle it by themselves; no death needs a person, and none writes a thing that was done again."""
    for number in range(1, 8):
        study = Study(tmp_path / f"{number}")
        study.folder.mkdir()
        study.file().write_text("old")
        put = writing(study, way)
        agent, point = putting(study, way, put, "new", "newer"), CrashPoint(number, keep)
        try:
            study.run(agent, point=point)
        except (Storage, Crash):
            study.die()
            if study.state.state != "completed":
                study.resume(agent)

        assert (study.text(), ["new", "newer"]) == ("newer", study.starts)
        assert ("completed", point.struck) == (study.state.state, number < 6)


def seen(call: clew.Call) -> clew.Verdict:
    """A probe that looks for itself."""
    done = (Path(call.workspace.root) / "note").read_text() == "new"
    return clew.Happened("wrote new") if done else clew.DidNotHappen()


# How `put` is declared; what a plan says of it in doubt; what its agent is told of what has happened.
IN_DOUBT: dict[str, tuple[dict[str, Any], tuple[str, str], str]] = {
    "its files": ({}, ("probe", "checkpoint_stands"), "wrote new"),
    "its own probe": ({"probe": seen}, ("probe", "probe_declared"), "wrote new"),
    "its files, its answer is secret": ({"secret": True}, ("probe", "checkpoint_stands"), "result_not_recorded"),
    "its files, it has a key": ({"key": lambda text, **_: text}, ("probe", "checkpoint_stands"), "wrote new"),
    "a person, anything may have changed": (
        {"paths": clew.WORKSPACE, "expects": None}, ("review", "unknown_effect"), "",
    ),
    "a person, it acts outside too": ({"effect": "external"}, ("review", "unknown_effect"), ""),
}  # fmt: skip


def raising(study: Study, when: str, declared: dict[str, Any]) -> clew.Agent:
    """An agent whose call raises at its first start, `before` it wrote or `behind` it; it returns what it is told."""
    fates = iter([lose_the_line])

    def fate() -> None:
        next(fates, lambda: None)()

    strikes: dict[str, Any] = {"first" if when == "before" else "then": fate}
    put = writing(study, **strikes, **declared)

    def script(run: Any) -> Any:
        try:
            return (yield run.call(put, path="note", text="new"))
        except clew.ToolError as told:
            return told.code

    return agent_of("plain", script, put)


def deaths_in_doubt(study: Study, agent: clew.Agent) -> list[CrashPoint]:
    """Every death in the append that says that nobody knows, and in the next, which settles it or says who is to."""
    life = CrashPoint()
    study.run(agent, point=life)
    found = []
    for number, batch in enumerate(life.appends[1:3], 2):
        ends = [at for at, byte in enumerate(batch.data, 1) if byte == ord("\n")]
        found += [CrashPoint(number, keep) for end in ends for keep in (end - 9, end)]
    return [CrashPoint(2, 0), *found]


@pytest.mark.parametrize("when", ["before", "behind"])
@pytest.mark.parametrize("who", IN_DOUBT)
def test_wherever_it_dies_in_doubt_the_same_one_is_asked(tmp_path: Path, who: str, when: str) -> None:
    """DESIGN §5: what is known of an attempt does not depend on how much of the doubt was written down."""
    declared, decision, told = IN_DOUBT[who]

    def fresh(name: str) -> tuple[Study, clew.Agent]:
        study = Study(tmp_path / name)
        study.folder.mkdir()
        study.file().write_text("old")
        return study, raising(study, when, declared)

    doubts = 0
    for number, point in enumerate(deaths_in_doubt(*fresh("whole"))):
        study, agent = fresh(f"{number}")
        with pytest.raises((Storage, Crash)):
            study.run(agent, point=point)
        study.die()
        plan, call = study.home().plan(RUN, agent), study.state.calls.get("put-1")
        assert plan is not None
        assert call is not None
        if call.settled_by is None:
            doubts += 1
            assert [decision] == [(step.decision, step.reason) for step in plan.steps]

        result = study.resume(agent)
        starts = ["new", "new"] if when == "before" and told else ["new"]

        assert ("completed" if told else "paused", starts) == (result.operation.state, study.starts)
        assert ((told if when == "behind" else "wrote new") if told else None) == result.output
    assert doubts >= 5


def killed(study: Study, put: clew.Tool) -> clew.Agent:
    """The agent of a run whose process died when its body had run: nobody was told how it ended."""
    agent = putting(study, "plain", put)
    with pytest.raises(Storage):
        study.run(agent, point=CrashPoint(2, 0))
    study.die()
    return agent


def test_killed_behind_its_body_it_has_happened(study: Study) -> None:
    """The file is as it said: the agent goes on, and is told that the result is not known."""
    agent = killed(study, writing(study, expects=lambda before, path, text: {path: text}))

    def script(run: Any) -> Any:
        try:
            yield run.call("put", path="note", text="new")
        except clew.ResultNotRecorded as told:
            return told.message

    go_on = agent_of("plain", script, *agent.tools.values())
    result = study.resume(go_on)

    assert "put happened, as settled by checkpoint; the result was not recorded" == result.output
    assert ["new"] == study.starts


def test_killed_in_the_middle_it_waits_for_a_person(study: Study) -> None:
    """What stands there is neither: nothing is written over it, and nothing is guessed."""
    agent = killed(study, writing(study, then=lambda: study.file().write_text("ne")))
    plan = study.home().plan(RUN, agent)
    result = study.resume(agent)

    assert plan is not None
    assert [("probe", "checkpoint_stands", "k1")] == [(step.decision, step.reason, step.detail) for step in plan.steps]
    assert ("paused", "unknown_effect", "ne", ["new"]) == (
        result.operation.state, result.reason, study.text(), study.starts,
    )  # fmt: skip


def test_what_a_person_wrote_meanwhile_is_not_written_over(study: Study) -> None:
    """The user's own work is never lost, not even by a call that could simply be repeated."""
    agent = killed(study, writing(study, replay="idempotent"))
    study.file().write_text("mine")
    result = study.resume(agent)

    assert ("unknown_effect", "mine", ["new"]) == (result.reason, study.text(), study.starts)


def test_the_files_can_be_asked_of_a_tool_that_is_not_offered_any_more(study: Study) -> None:
    """What it did stands in the workspace, not in the tool."""
    killed(study, writing(study))
    result = study.resume(clew.Agent(lambda run, prompt: "idle", name="agent"))

    assert ["happened"] == [row["outcome"] for row in study.said("effect_review")]
    assert "completed" == result.operation.state


def test_files_that_cannot_be_looked_at_say_nothing(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not being able to look is not having looked; when to come back is said."""
    agent = killed(study, writing(study))
    monkeypatch.setattr(FileWorkspace, "stand", fail)
    result = study.resume(agent)

    assert ("unknown_effect", 5.0) == (result.reason, result.retry_in_s)
    assert study.state.pause is not None
    assert "the paths cannot be looked at" in study.state.pause["outcome"]["error"]["message"]


# Where it happens.


def test_the_loop_goes_on_while_files_are_kept(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gigabyte takes seconds; every other task of the program must not wait for it."""
    beat, stand = threading.Event(), FileWorkspace.stand

    def slow(*given: Any, **how: Any) -> Any:
        assert beat.wait(60), "the loop stood still"
        return stand(*given, **how)

    monkeypatch.setattr(FileWorkspace, "stand", slow)
    put = writing(study, "async")

    async def agent(run: clew.Run, prompt: str) -> Any:
        task = asyncio.ensure_future(run.call(put, path="note", text="new"))
        while not task.done():
            await asyncio.sleep(0)
            beat.set()
        return await task

    assert "wrote new" == study.run(clew.Agent(agent, tools=[put])).output


def test_ctrl_c_while_files_are_kept_starts_nothing(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who pressed it has not agreed to a start."""

    def struck(*given: Any, **how: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(FileWorkspace, "stand", struck)
    result = study.run(putting(study, "plain", writing(study)))

    assert ("interrupted", [], "old") == (result.reason, study.starts, study.text())


# Names of places.


def test_a_path_is_named_by_where_it_is_and_by_where_it_leads(tmp_path: Path) -> None:
    """A link is one thing, what it leads to another; folders on the way are always followed."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a").write_text("x")
    (tmp_path / "alias").symlink_to("real")
    (tmp_path / "real/link").symlink_to("a")
    workspace = FileWorkspace(tmp_path)

    assert ["real/link", "link", "real", "real/a", "back\\slash"] == [
        itself(workspace, "alias/link"), itself(workspace, "./link"), itself(workspace, "alias/x/.."),
        lands(workspace, "alias/link"), itself(workspace, "back\\slash"),
    ]  # fmt: skip


def test_a_tool_sees_how_its_paths_stand_before_it_says_what_it_expects(study: Study) -> None:
    """An edit follows from what is there, byte for byte what was kept."""
    seen: list[Any] = []

    def expects(before: Any, path: str, text: str) -> Any:
        seen.append((before[path].kind, before.read(path), before.size_bytes(path), list(before), len(before)))
        seen.append((before.read("gone"), before.stands_at(path), before.leads_to(path)))
        return {path: before[path] if text == "same" else text}

    study.run(putting(study, "plain", writing(study, expects=expects)))

    assert [("file", b"old", 3, ["note"], 1), (None, "note", "note")] == seen
    assert isinstance(study.checkpoints[0].before, dict)
    assert all(isinstance(state, PathState) for state in study.checkpoints[0].before.values())


def test_a_tool_may_announce_a_state_as_it_stands(study: Study) -> None:
    """It knows that it leaves this path alone, and need not read a gigabyte to say so."""
    study.run(putting(study, "plain", writing(study, expects=lambda before, path, text: {path: before[path]})))

    assert [True] == [found.before == found.expects for found in study.checkpoints]


def test_where_living_processes_cannot_be_told_nothing_is_looked_at(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One may still write: what is seen now would be said to be how the attempt left its files."""
    monkeypatch.setattr(LocalProcesses, "living", fail)
    result = study.run(putting(study, "plain", writing(study, then=lose_the_line, expects=None)))

    assert ("unknown_effect", [*OPENED, "unknown", "error"]) == (result.reason, study.kinds)


def test_more_changes_than_a_record_holds_are_counted(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command unpacked a million files: those that are not named are said to be there."""
    monkeypatch.setattr("clew.runtime.checkpoint.MOST_BYTES", 500)
    study.run(command(study, lambda: [study.file(f"new{number}").write_text("") for number in range(5)]))
    found = study.checkpoints[0]

    assert 2 == len(found.after or {})
    assert ({"why": "over_limit", "count": 3},) == found.not_covered


def test_a_call_without_a_checkpoint_has_no_files_to_be_asked() -> None:
    """What it did is somewhere else."""
    call, scribe = facts(), Scribe().born()
    scribe.say(*started(call))
    gate: Any = SimpleNamespace(journal=SimpleNamespace(state=scribe.state))

    found = probe_of(gate, Ticket(clew.Tool(lambda: None, name="pay"), call, {}, {}))

    assert found is None
