"""Files of the workspace as tools: by hand, and through runs that are really killed."""

import base64
import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import clew
from clew import errors
from clew.stores.workspace import FileWorkspace
from clew.toolkit import list_files, read_file, write_file


def loose(folder: Path) -> clew.Call:
    return clew.Call.loose(workspace=FileWorkspace(folder))


def test_what_the_tools_say_of_themselves() -> None:
    """Reading may always run again; a written file is written again under the same call, and never twice at once."""
    found = {tool.name: tool.capability for tool in (read_file, list_files, write_file)}

    said = {name: (it.effect, it.replay, it.checkpoint, it.concurrency, it.source) for name, it in found.items()}

    assert said == {
        "read_file": ("none", "safe", "none", "parallel", "builtin"),
        "list_files": ("none", "safe", "none", "parallel", "builtin"),
        "write_file": ("workspace", "idempotent", "required", "workspace_exclusive", "builtin"),
    }


def test_a_written_file_is_read_as_it_is(tmp_path: Path) -> None:
    """No line end is turned into another, or a digest of it would not be its own."""
    text = "Grüße\r\n\0\n"

    written = write_file(loose(tmp_path), "a/b.txt", text)

    assert read_file(loose(tmp_path), "a/b.txt") == text
    assert (tmp_path / "a/b.txt").read_bytes() == text.encode()
    assert written == {"path": "a/b.txt", "sizeBytes": 11, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def test_a_file_that_is_too_long_fails_with_its_beginning(tmp_path: Path) -> None:
    """A part that is taken for the whole loses the orders at its end."""
    (tmp_path / "x").write_bytes("aä€".encode())

    answers = [read_file(loose(tmp_path), "x", max_bytes=limit) for limit in (5, 6)]

    assert answers[0].value == {"text": "aä", "sizeBytes": 6, "cutBytes": 3}
    assert "6 bytes, more than max_bytes=5: 3 at its end are cut" in answers[0].message
    assert answers[1] == "aä€"


def test_bytes_that_are_no_text_are_said_and_can_be_had(tmp_path: Path) -> None:
    """Replacement characters would be an invention."""
    (tmp_path / "x").write_bytes(b"ok\xff\x00")

    failed = read_file(loose(tmp_path), "x")
    content = read_file(loose(tmp_path), "x", encoding="base64")

    assert (type(failed), "encoding='base64'" in failed.message) == (clew.Failed, True)
    assert base64.b64decode(content) == b"ok\xff\x00"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32-le", "latin-1", "utf-8-sig", "shift_jis", "cp1252"])
def test_other_encodings_are_read(tmp_path: Path, encoding: str) -> None:
    """Ledgers come from old programs."""
    (tmp_path / "x").write_bytes("Ledger 7".encode(encoding))

    assert read_file(loose(tmp_path), "x", encoding=encoding) == "Ledger 7"


@pytest.mark.parametrize(
    "given", [{"encoding": "nonsense"}, {"encoding": "zlib"}, {"encoding": "hex"}, {"encoding": "a\0"}]
)
def test_what_is_no_text_encoding_is_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    """One that unpacks would turn a small file into a large answer."""
    (tmp_path / "x").touch()

    with pytest.raises(clew.NothingHappened):
        read_file(loose(tmp_path), "x", **given)


@pytest.mark.parametrize("limit", [0, -1, 1 << 40])
@pytest.mark.parametrize(("tool", "given"), [(read_file, {"path": "x"}), (list_files, {})])
def test_answers_are_bounded(tmp_path: Path, tool: clew.Tool, given: dict[str, Any], limit: int) -> None:
    """A model that asks for everything does not fill the memory."""
    bound = {"max_bytes" if tool is read_file else "limit": limit}

    with pytest.raises(clew.NothingHappened, match="it may be 1 to"):
        tool(loose(tmp_path), **given, **bound)


def test_a_missing_file_is_a_failure_that_can_be_told(tmp_path: Path) -> None:
    """It was looked for, so this is an answer."""
    assert read_file(loose(tmp_path), "x") == clew.Failed("there is no file 'x' in the workspace")


def test_a_listing_is_whole_or_fails_with_its_beginning(tmp_path: Path) -> None:
    """A loop over a cut list would leave orders unpaid without a word."""
    for name in ("b", "a", "c"):
        (tmp_path / name).touch()

    whole, cut = list_files(loose(tmp_path), limit=3), list_files(loose(tmp_path), limit=2)

    assert (whole, cut.value) == (["a", "b", "c"], {"paths": ["a", "b"]})


def test_a_listing_that_could_not_look_everywhere_fails(tmp_path: Path) -> None:
    """What could not be read is not nothing."""
    found = list_files(loose(tmp_path / "nothing"))

    assert found.value == {"paths": [], "unread": ["."]}


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "out/x", ".git/config"])
@pytest.mark.parametrize(("tool", "given"), [(read_file, {}), (write_file, {"content": "x"})])
def test_outside_proves_that_nothing_happened(
    tmp_path: Path, tool: clew.Tool, given: dict[str, Any], path: str
) -> None:
    """Refused before any effect: the agent may be told so, and nobody has to look."""
    (tmp_path / "out").symlink_to("/")

    with pytest.raises(clew.NothingHappened, match="not a path of the workspace"):
        tool(loose(tmp_path), path, **given)


@pytest.mark.parametrize(("tool", "given"), [(list_files, ["../*"]), (write_file, ["x", "\ud800"])])
def test_what_is_known_to_be_wrong_beforehand_is_refused(tmp_path: Path, tool: clew.Tool, given: list[str]) -> None:
    """A pattern that leaves the workspace, a text that is no UTF-8: both before anything is touched."""
    with pytest.raises(clew.NothingHappened):
        tool(loose(tmp_path), *given)


@pytest.mark.skipif(os.geteuid() == 0, reason="root is denied nothing")
def test_a_folder_that_denies_proves_that_nothing_happened(tmp_path: Path) -> None:
    """The agent can choose another place."""
    tmp_path.chmod(0o500)

    with pytest.raises(clew.NothingHappened):
        write_file(loose(tmp_path), "x", "y")


def test_a_call_without_a_workspace_says_how_to_give_one() -> None:
    """The current folder would be a guess, and a write to it a surprise."""
    with pytest.raises(errors.UsageError) as told:
        write_file(clew.Call.loose(), "x", "y")

    assert told.value.code == "no_workspace"


@clew.agent(tools=[read_file, list_files, write_file])
def copier(run: clew.SyncRun, name: str) -> list[str]:
    """Copies a file, and is told no on the way."""
    told = []
    for path in ("../outside", "nothing"):
        try:
            run.call(read_file, path=path)
        except clew.ToolError as refused:
            told.append(refused.message)
    try:
        run.call(write_file, path="out/x", content="x")
    except clew.ToolError as refused:
        told.append(refused.message)
    text = run.call(read_file, path=name)
    run.call(write_file, path="copies/1.txt", content=text)
    return [*told, *run.call(list_files)]


def test_in_a_run_a_refusal_is_told_to_the_agent_and_leaves_nothing_open(tmp_path: Path) -> None:
    """The run completes: what was refused is settled by the tool's own word."""
    (tmp_path / "a.txt").write_text("hello")
    (tmp_path / "out").symlink_to("..")
    home = clew.Home.memory(workspace=tmp_path)

    result = home.run_sync(copier, "a.txt")

    assert result.operation.state == "completed"
    assert result.output[3:] == ["a.txt", "copies/1.txt"]
    assert ["leads out" in said for said in result.output[:3]] == [True, False, True]
    assert (tmp_path / "copies/1.txt").read_text() == "hello"


async def async_copier(run: clew.Run, name: str) -> Any:
    text = await run.call(read_file, path=name)
    await run.call(write_file, path="b.txt", content=text)
    return await run.call(list_files, "*.txt")


def test_an_async_agent_uses_the_same_tools(tmp_path: Path) -> None:
    """They are plain functions, and do not hold up the loop."""
    (tmp_path / "a.txt").write_text("hello")
    home = clew.Home.memory(workspace=tmp_path)

    result = home.run_sync(clew.agent(tools=[read_file, list_files, write_file])(async_copier), "a.txt")

    assert result.output == ["a.txt", "b.txt"]


WRITER = """
import os, signal, sys
from pathlib import Path
import clew
from clew.disk import anchor
from clew.toolkit import write_file

@clew.agent(tools=[write_file])
def writer(run, text):
    return run.call(write_file, path="made/out.txt", content=text)["path"]

rename = anchor._rename
def die(folder, name, there, to, kind):
    if to == "out.txt" and sys.argv[2] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(folder, name, there, to, kind)
anchor._rename = die
home = clew.Home(Path(sys.argv[1]) / ".clew", takeover="proven")
result = home.ensure_sync(writer, "new", run_id="w1")
print(result.operation.state, result.output)
"""


def play(folder: Path, end: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WRITER, str(folder), end]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_write_that_was_killed_before_its_rename_is_done_again_under_the_same_key(tmp_path: Path) -> None:
    """Old content or new, never half, and nothing beside it; and the run goes on without asking anybody."""
    (tmp_path / "made").mkdir()
    (tmp_path / "made/out.txt").write_text("old")

    killed, between = play(tmp_path, "die"), (tmp_path / "made/out.txt").read_text()
    left = len(list((tmp_path / "made").iterdir()))
    resumed = play(tmp_path, "live")
    records = [record for record, _ in clew.FileRunStore(tmp_path / ".clew").read("w1")]
    events = [record.payload["event"] for record in records if record.kind == "event"]
    starts = [event["attemptId"] for event in events if event.get("attempt") and event.get("status") == "started"]

    assert (killed.returncode, between) == (-signal.SIGKILL, "old")
    assert (resumed.stdout, (tmp_path / "made/out.txt").read_text()) == ("completed made/out.txt\n", "new"), (
        resumed.stderr
    )
    assert (left, [path.name for path in (tmp_path / "made").iterdir()]) == (2, ["out.txt"])
    assert starts == ["w1:write_file-1:c1#2"]
