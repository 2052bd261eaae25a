"""Tools that change one file in place: what they leave alone, what they refuse, and what of it a run can take back."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import clew
from clew.errors import NothingHappened, Storage
from clew.stores.workspace import FileWorkspace
from clew.testing.crash import Crash, CrashPoint
from clew.toolkit import delete_file, edit_file, move_file, write_file
from clew.toolkit.edits import edited
from tests.runtime.scene import agent_of
from tests.runtime.study import Study

EDITS = (write_file, edit_file, delete_file, move_file)


def loose(folder: Path) -> clew.Call:
    return clew.Call.loose(workspace=FileWorkspace(folder))


def refusal(tool: Any, folder: Path, *given: Any, **named: Any) -> str:
    with pytest.raises(NothingHappened) as caught:
        tool(loose(folder), *given, **named)
    return str(caught.value)


def test_what_the_tools_say_of_themselves() -> None:
    """Each is kept before it starts, and says how it leaves its files; only a whole content may be written twice."""
    found = {tool.name: (tool.capability.effect, tool.capability.replay, tool.capability.checkpoint) for tool in EDITS}

    assert {
        "write_file": ("workspace", "idempotent", "required"),
        "edit_file": ("workspace", "unknown", "required"),
        "delete_file": ("workspace", "unknown", "required"),
        "move_file": ("workspace", "unknown", "required"),
    } == found
    assert all(tool.paths is not None and tool.paths.expects is not None for tool in EDITS)


# Editing.


@given(st.binary(max_size=40), st.binary(max_size=40), st.text(max_size=9))
def test_all_other_bytes_stay_as_they_are(before: bytes, after: bytes, new: str) -> None:
    """No line end, no byte order mark and no strange byte is anybody's business but the file's."""
    data = before + b"<here>" + after
    if data.count(b"<here>") != 1 or new == "<here>":
        return

    assert before + new.encode() + after == edited(data, "a", "<here>", new, "utf-8")


@pytest.mark.parametrize(
    ("data", "old", "new", "wanted"),
    [
        (b"a\r\nb\r\nc", "b\r\nc", "d", b"a\r\nd"),
        (b"\xef\xbb\xbfname", "name", "Name", b"\xef\xbb\xbfName"),
        ("Grüße\n".encode(), "ü", "u", b"Gru\xc3\x9fe\n"),
        (b"\xff\x00 x", "x", "y", b"\xff\x00 y"),
        (b"one", "one", "", b""),
    ],
)
def test_an_edit_changes_one_place(data: bytes, old: str, new: str, wanted: bytes) -> None:
    """What the agent wrote is what stands there."""
    assert wanted == edited(data, "a", old, new, "utf-8")


@pytest.mark.parametrize("encoding", ["gb18030", "latin-1", "utf-16-le", "shift_jis"])
def test_other_encodings_are_edited_by_their_characters(encoding: str) -> None:
    """A byte of one character is not another character, however it looks."""
    text = "価格 7" if encoding in ("gb18030", "utf-16-le", "shift_jis") else "Preis 7"

    assert text.replace("7", "8").encode(encoding) == edited(text.encode(encoding), "a", "7", "8", encoding)


def test_a_byte_inside_a_character_is_not_found() -> None:
    """GB18030 has digits as second bytes."""
    data = "丂0".encode("gb18030")
    with pytest.raises(NothingHappened):
        edited("亐".encode("gb18030"), "a", "0", "1", "gb18030")

    assert "丂1".encode("gb18030") == edited(data, "a", "0", "1", "gb18030")


@pytest.mark.parametrize(
    ("data", "old", "new", "encoding", "words"),
    [
        (b"a", "b", "c", "utf-8", "the text does not stand in 'a'"),
        (b"a a", "a", "c", "utf-8", "more than once"),
        (b"aaa", "aa", "c", "utf-8", "more than once"),
        (b"a\r\nb", "a\nb", "c", "utf-8", "with other line ends: \\r\\n"),
        (b"a\nb", "a\r\nb", "c", "utf-8", "with other line ends: \\n"),
        (b"a", " a ", "c", "utf-8", "without the white space around it"),
        (b"a", "", "c", "utf-8", "there is no text to look for"),
        (b"a", "a", "a", "utf-8", "both texts are the same"),
        (b"a", "a", "c", "nonsense", "is not nonsense text"),
        (b"\xff", "a", "c", "ascii", "is not ascii text"),
        (b"\xff\xfea\0", "a", "c", "utf-16-be", "does not stand"),
        (b"\xff\xfea\0", "a", "\udc80", "utf-16", "cannot be written"),
        (b"a", "a", "ü", "ascii", "the new text cannot be written as ascii"),
        (b"\xfe\xff\0a", "a", "c", "utf-16", "does not give the same bytes again"),
    ],
)
def test_an_edit_that_is_not_clear_is_refused(data: bytes, old: str, new: str, encoding: str, words: str) -> None:
    """An agent that is told what is wrong asks again; one whose guess was taken never knows."""
    with pytest.raises(NothingHappened) as caught:
        edited(data, "a", old, new, encoding)

    assert words in str(caught.value)


def test_an_edit_keeps_mode_and_link(tmp_path: Path) -> None:
    """A script stays a script, and what leads to it still does."""
    (tmp_path / "run").write_bytes(b"#!/bin/sh\n")
    (tmp_path / "run").chmod(0o755)
    (tmp_path / "link").symlink_to("run")
    told = edit_file(loose(tmp_path), "link", "sh", "bash")

    assert (b"#!/bin/bash\n", 0o755, "run", "run") == (
        (tmp_path / "run").read_bytes(), (tmp_path / "run").stat().st_mode & 0o777,
        os.readlink(tmp_path / "link"), told["path"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("tool", "given", "words"),
    [
        (edit_file, ("none", "a", "b"), "there is no file"),
        (edit_file, ("../x", "a", "b"), "'../x'"),
        (delete_file, ("none",), "there is no file"),
        (delete_file, ("folder",), "folder"),
        (delete_file, ("../x",), "is not a path of the workspace"),
        (move_file, ("none", "b"), "there is no file"),
        (move_file, ("a", "b"), "stands there"),
        (move_file, ("a", "../b"), "b"),
        (move_file, ("folder", "c"), "folder"),
    ],
)
def test_a_tool_by_hand_refuses_before_it_touches_anything(
    tmp_path: Path, tool: Any, given: tuple[str, ...], words: str
) -> None:
    """Without a run around it, it is the workspace that says no."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    message = refusal(tool, tmp_path, *given)

    assert (True, "a", "b") == (words in message, (tmp_path / "a").read_text(), (tmp_path / "b").read_text())


def test_a_file_that_is_too_large_is_not_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its whole text must be in memory."""
    monkeypatch.setattr("clew.toolkit.edits.MOST_BYTES", 3)
    (tmp_path / "a").write_text("abcd")

    assert "'a' has 4 bytes; at most 3 can be edited" == refusal(edit_file, tmp_path, "a", "b", "c")


def test_a_file_and_a_link_can_be_deleted_and_moved(tmp_path: Path) -> None:
    """The link itself, never what it leads to."""
    (tmp_path / "a").write_text("a")
    (tmp_path / "link").symlink_to("a")

    told = [move_file(loose(tmp_path), "link", "x/y"), delete_file(loose(tmp_path), "x/y")]

    assert ([{"path": "x/y"}, {"path": "x/y"}], "a", False) == (
        told, (tmp_path / "a").read_text(), os.path.lexists(tmp_path / "x/y"),
    )  # fmt: skip


# Through runs.

CALLS: dict[str, tuple[Any, dict[str, str], dict[str, str]]] = {
    "write": (write_file, {"path": "n/new", "content": "x"}, {"a": "old\n", "n/new": "x"}),
    "overwrite": (write_file, {"path": "a", "content": "x"}, {"a": "x"}),
    "edit": (edit_file, {"path": "a", "old": "old", "new": "oldest"}, {"a": "oldest\n"}),
    "delete": (delete_file, {"path": "a"}, {}),
    "move": (move_file, {"path": "a", "to": "m/b"}, {"m/b": "old\n"}),
}


def files(folder: Path) -> dict[str, str]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and ".clew" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_text() for path in found}


def play(folder: Path, name: str, point: CrashPoint) -> Study:
    """One call in a run that dies at this append, and then goes on."""
    study = Study(folder)
    folder.mkdir()
    study.file("a").write_text("old\n")
    tool, arguments, _ = CALLS[name]
    agent = agent_of("plain", lambda run: (yield run.call(tool, **arguments)), tool)
    try:
        study.run(agent, point=point)
    except (Crash, Storage):
        study.die()
        if study.state.state != "completed":
            study.resume(agent)
    return study


@pytest.mark.parametrize("name", CALLS)
def test_a_death_at_any_append_ends_in_the_same_files_and_the_same_answer(tmp_path: Path, name: str) -> None:
    """The files settle it: nobody is asked, and the agent is told what the tool would have returned."""
    outputs = []
    for number in range(1, 5):
        study = play(tmp_path / f"{number}", name, CrashPoint(number, 0))
        outputs.append((study.state.state, files(study.folder), study.state.agent_end))

    first = outputs[-1]
    assert ("completed", CALLS[name][2]) == first[:2]
    assert [first] * 4 == outputs


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        (edit_file, {"path": "none", "old": "a", "new": "b"}, "there is no file 'none'"),
        (edit_file, {"path": "a", "old": "x", "new": "b"}, "the text does not stand in 'a'"),
        (edit_file, {"path": "big", "old": "x", "new": "b"}, "can be edited"),
        (delete_file, {"path": "none"}, "there is no file 'none'"),
        (delete_file, {"path": "folder"}, "'folder' is a folder"),
        (move_file, {"path": "none", "to": "b"}, "there is no file 'none'"),
        (move_file, {"path": "a", "to": "big"}, "stands there already"),
        (write_file, {"path": "a", "content": "\ud800"}, "cannot be written as UTF-8"),
    ],
)
def test_what_cannot_be_done_is_told_before_anything_starts(
    tmp_path: Path, tool: Any, arguments: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no attempt that somebody would have to settle."""
    monkeypatch.setattr("clew.toolkit.edits.MOST_BYTES", 9)
    study = Study(tmp_path)
    study.file("a").write_text("old")
    study.file("big").write_text("x" * 10)
    study.file("folder").mkdir()

    def script(run: Any) -> Any:
        try:
            yield run.call(tool, **arguments)
        except clew.ToolError as told:
            return told.message

    told = study.run(agent_of("plain", script, tool)).output

    assert (True, "not_started") == (words in told, study.kinds[2])


@pytest.mark.parametrize("code", ["storage_denied", "storage_full"])
def test_a_machine_that_refuses_says_as_much_as_is_known(
    tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Denied is denied before the file is touched; of all else nobody knows, and the files are asked."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise Storage("no", code=code, next="Mend it.")

    monkeypatch.setattr(FileWorkspace, "delete", refuse)
    (tmp_path / "a").write_text("a")
    with pytest.raises((NothingHappened, Storage)) as caught:
        delete_file(loose(tmp_path), "a")

    assert (code == "storage_denied") == isinstance(caught.value, NothingHappened)
