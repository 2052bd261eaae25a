"""Searching the files of the workspace as a tool: what is found, what is not searched, what is never left unsaid."""

from pathlib import Path
from typing import Any

import pytest

import clew
from clew.stores.workspace import FileWorkspace
from clew.toolkit import search_files


def told(root: Path, pattern: str, **given: Any) -> Any:
    """What the tool tells, by hand."""
    return search_files(clew.Call.loose(workspace=FileWorkspace(root)), pattern, **given)


def lines(found: Any) -> list[tuple[str, int]]:
    return [(match["path"], match["line"]) for match in found["matches"]]


def planted(root: Path, **texts: str) -> None:
    """Files by their names, `__` for a folder."""
    for name, text in texts.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def test_what_the_tool_says_of_itself() -> None:
    """Searching changes nothing, so it may always run again."""
    found = search_files.capability

    assert ("none", "safe", "parallel", "builtin") == (found.effect, found.replay, found.concurrency, found.source)


def test_lines_are_found_in_the_order_of_a_listing(tmp_path: Path) -> None:
    """The same question gets the same answer, also on a resume."""
    planted(tmp_path, b="pay\n", a__z="\npay 2\n", a__b="pay", c="nothing\n")

    found = told(tmp_path, r"pay( \d)?$")

    assert ([("a/b", 1), ("a/z", 2), ("b", 1)], 4) == (lines(found), found["searched"])
    assert {"path": "a/z", "line": 2, "column": 1, "text": "pay 2"} == found["matches"][1]
    assert ["matches", "searched"] == list(found)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"path": "a"}, ["a/x.py", "a/x.txt"]),
        ({"path": "./a/"}, ["a/x.py", "a/x.txt"]),
        ({"path": "a/x.py"}, ["a/x.py"]),
        ({"files": "*.py"}, ["y.py"]),
        ({"path": "a", "files": "*.txt"}, ["a/x.txt"]),
        ({"path": "[b]"}, ["[b]/z"]),
        ({"path": "link"}, ["a/x.py", "a/x.txt"]),
    ],
)
def test_a_search_can_be_narrowed(tmp_path: Path, given: dict[str, Any], expected: list[str]) -> None:
    """A path means that very path, whatever signs are in it."""
    planted(tmp_path, **{"a__x.py": "x", "a__x.txt": "x", "y.py": "x", "[b]__z": "x", "b__z": "x"})
    (tmp_path / "link").symlink_to("a")

    found = told(tmp_path, "x", **given)

    assert expected == [match["path"] for match in found["matches"]]


def test_what_is_not_text_is_counted_and_named(tmp_path: Path) -> None:
    """ "Not found" must not be said of what nobody looked at."""
    planted(tmp_path, a="x")
    for name, data in (("b", b"x\0"), ("c", b"x\xff"), ("d", b"\0")):
        (tmp_path / name).write_bytes(data)

    found = told(tmp_path, "x")

    assert ([("a", 1)], 1) == (lines(found), found["searched"])
    assert ({"binary": 2, "not_utf8": 1}, ["b", "c", "d"]) == (found["skipped"], found["skippedFirst"])


def test_links_out_of_the_workspace_are_not_followed(tmp_path: Path) -> None:
    """What lies outside is not the agent's to read, nor what clew and git keep."""
    inside, outside = tmp_path / "in", tmp_path / "out"
    planted(tmp_path, in__a="x", out__secret="x")
    for name in (".clew", ".git"):
        (inside / name).mkdir()
        (inside / name / "x").write_text("x")
    (inside / "file").symlink_to(outside / "secret")
    (inside / "folder").symlink_to(outside)

    assert [("a", 1)] == lines(told(inside, "x"))


@pytest.mark.parametrize("path", ["..", "folder", "file", ".git", "/etc"])
def test_a_path_out_of_the_workspace_is_refused(tmp_path: Path, path: str) -> None:
    """Not even what lies there is told."""
    inside = tmp_path / "in"
    planted(tmp_path, in__a="x", out__secret="x")
    (inside / "file").symlink_to(tmp_path / "out/secret")
    (inside / "folder").symlink_to(tmp_path / "out")

    with pytest.raises(clew.NothingHappened, match="not a path of the workspace"):
        told(inside, "x", path=path)


def test_too_many_lines_fail_with_the_first_of_them(tmp_path: Path) -> None:
    """A model that counts on all of them would miss the last."""
    planted(tmp_path, a="x\nx\nx\n")

    cut, whole = told(tmp_path, "x", limit=2), told(tmp_path, "x", limit=3)

    assert (clew.Failed, [("a", 1), ("a", 2)], 3) == (type(cut), lines(cut.value), len(lines(whole)))
    assert "all after these are cut" in cut.message


@pytest.mark.parametrize("given", [{"path": "missing"}, {"files": "*.rs"}, {"path": "a", "files": "b"}])
def test_a_search_of_no_file_fails(tmp_path: Path, given: dict[str, Any]) -> None:
    """A name that was written wrong would look like a place where nothing is."""
    planted(tmp_path, a__x="x")

    found = told(tmp_path, "x", **given)

    assert (clew.Failed, True) == (type(found), "there is no file" in found.message)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"pattern": "("}, "is no regular expression"),
        ({"pattern": "x", "limit": 0}, "limit is 0"),
        ({"pattern": "x", "timeout_s": 0}, "timeout_s is 0"),
        ({"pattern": "x", "timeout_s": 601}, "timeout_s is 601"),
        ({"pattern": "x", "files": "../*"}, "no pattern for files"),
        ({"pattern": "(a|a)*$", "timeout_s": 0.5}, "took longer than 0.5 s"),
    ],
)
def test_what_cannot_be_searched_is_told(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    """The agent can ask in another way; a pattern that backtracks without end does not hold the program."""
    planted(tmp_path, a="a" * 64 + "b")

    with pytest.raises(clew.NothingHappened, match=said):
        told(tmp_path, **given)


def test_a_run_goes_on_after_a_search(tmp_path: Path) -> None:
    """Through the gate it is an answer like any other, an error among them."""
    planted(tmp_path, a="pay 7\n")

    def work(run: clew.SyncRun, prompt: Any) -> Any:
        with pytest.raises(clew.ToolError):
            run.call(search_files, "(")
        return run.call(search_files, "pay")["matches"][0]["text"]

    result = clew.Home(tmp_path / ".clew").run_sync(clew.Agent(work, name="worker", tools=[search_files]))

    assert ("completed", "pay 7") == (result.operation.state, result.output)
