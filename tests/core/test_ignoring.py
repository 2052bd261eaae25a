"""Ignore rules: the syntax of `.gitignore`, as git itself reads it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.ignoring import left_out_by, read_rules

RULES = [
    ("*.pyc", "a/b/c.pyc", True),
    ("*.pyc", "c.pyo", False),
    ("build", "x/build", True),
    ("/build", "x/build", False),
    ("/build", "build", True),
    ("a/b", "x/a/b", False),
    ("a/b", "a/b", True),
    ("**/b", "b", True),
    ("**/b", "x/y/b", True),
    ("a/**/b", "a/b", True),
    ("a/**/b", "a/x/y/b", True),
    ("a/**", "a/x/y", True),
    ("a/**", "a", False),
    ("***/b", "b", True),
    ("a/***/b", "a/x/y/b", True),
    ("a/***", "a/x/y", True),
    ("/**", "a/x/y", True),
    ("/*", "a/x/y", False),
    ("a**b", "a/b", False),
    ("a**b", "axb", True),
    ("a?c", "abc", True),
    ("a?c", "a/c", False),
    ("[a-c]x", "bx", True),
    ("[!a-c]x", "bx", False),
    ("[^a-c]x", "dx", True),
    ("a[!x]c", "a/c", False),
    ("[]]x", "]x", True),
    (r"[\]x", r"\x", False),
    ("[z-a]x", "bx", False),
    ("[[:alpha:]]", "a", False),
    (r"[a\-c]", "b", False),
    (r"[a\-c]", "-", True),
    ("[a-]", "-", True),
    ("[&&~~||]", "&", True),
    ("[[a]", "[", True),
    ("[", "[", False),
    ("[!", "[!", False),
    ("[open", "[open", False),
    ("# no rule", "# no rule", False),
    (r"\#rule", "#rule", True),
    (r"\!rule", "!rule", True),
    ("trailing  ", "trailing", True),
    ("trailing\\ ", "trailing ", True),
    ("line\r", "line", True),
    (r"\*", "*", True),
    (r"\*", "x", False),
    ("broken\\", "broken\\", False),
    ("", "x", False),
    ("/", "x", False),
    ("*a*b*c", "xxaxbxbxc", True),
    ("*a*b*c", "xxaxbxbxcx", False),
    ("**/**/**/**/**/x", "x", False),
    ("a.c", "abc", False),
]


@pytest.mark.parametrize(("line", "path", "left_out"), RULES)
def test_a_rule_leaves_out_what_it_says(line: str, path: str, left_out: bool) -> None:
    """Who wrote it for git must not learn another syntax, nor find that what they left out is kept."""
    found = left_out_by([read_rules(".gitignore", line)], path, folder=False)

    assert found == (f".gitignore: {line.strip()}" if left_out else "")


def test_a_rule_for_folders_spares_files() -> None:
    """`build/` is about what was built, not about a script of that name."""
    stack = [read_rules(".gitignore", "build/")]

    found = left_out_by(stack, "build", folder=True), left_out_by(stack, "build", folder=False)

    assert found == (".gitignore: build/", "")


def test_the_last_rule_that_fits_counts() -> None:
    """`!` takes in again, and a later rule leaves out again."""
    stack = [read_rules(".gitignore", "*.log\n!keep.log\nkeep.log/")]

    found = [left_out_by(stack, path, folder=False) for path in ("a.log", "keep.log")]

    assert found == [".gitignore: *.log", ""]


def test_a_deeper_file_is_behind_a_higher_one_and_about_its_own_folder() -> None:
    """A folder knows its own contents best, and nothing of what lies beside it."""
    stack = [read_rules(".gitignore", "*.log"), read_rules("a/.gitignore", "!x.log\n/only")]

    found = [left_out_by(stack, path, folder=False) for path in ("a/x.log", "a/only", "a/b/only")]

    assert found == ["", "a/.gitignore: /only", ""]


def test_a_mark_at_the_beginning_of_the_file_is_no_part_of_the_first_rule() -> None:
    """Editors of one platform write it unasked."""
    found = left_out_by([read_rules(".gitignore", "\ufeffx")], "x", folder=False)

    assert found == ".gitignore: x"


def test_a_rule_cannot_make_a_look_last_for_ever() -> None:
    """What a tool writes into such a file is matched with before the next tool runs."""
    stack = [read_rules(".gitignore", "*a" * 40 + "b")]

    found = left_out_by(stack, "a" * 250, folder=False)

    assert found == ""


ODD = re.compile(r"[^/*!]\*\*|\\/")
"""Where git does not keep its own word: stars behind the letters that it compares by themselves, an escaped slash."""
PIECES = st.sampled_from(["a", "b", "*", "**", "?", "/", "[ab]", "[!a]", "!", "\\", " ", ".", "#", "ab"])
LINES = st.lists(PIECES, min_size=1, max_size=5).map("".join).filter(lambda line: not ODD.search(line))
NAMES = st.sampled_from(["a", "b", "ab", "a.b", "!a", "#", "a b", "ba", ".a", "\\a", "abab"])


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not here to be compared with")
def test_git_reads_the_rules_the_same_way(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Files are left out as their owner knows it from git; the two are compared on rules that nobody thought of."""
    folder = tmp_path_factory.mktemp("git")
    subprocess.run(["git", "init", "-q", str(folder)], check=True, timeout=30)

    @settings(max_examples=40, deadline=None)
    @given(
        st.lists(LINES, min_size=1, max_size=4),
        st.lists(st.lists(NAMES, min_size=1, max_size=3).map("/".join), min_size=1, max_size=6, unique=True),
    )
    def compare(lines: list[str], paths: list[str]) -> None:
        (folder / ".gitignore").write_bytes("\n".join(lines).encode())
        stack = [read_rules(".gitignore", "\n".join(lines))]

        found = {path: _is_left_out(stack, path) for path in paths}

        assert found == {path: path in _left_out_by_git(folder, paths) for path in paths}

    compare()


def _is_left_out(stack: list, path: str) -> bool:
    above = [path[:at] for at, letter in enumerate(path) if letter == "/"]
    return any(left_out_by(stack, folder, folder=True) for folder in above) or bool(
        left_out_by(stack, path, folder=False)
    )


def _left_out_by_git(folder: Path, paths: list[str]) -> set[str]:
    asked = b"\0".join(path.encode() for path in paths) + b"\0"
    done = subprocess.run(
        ["git", "check-ignore", "-z", "--stdin", "--no-index"],
        cwd=folder, input=asked, capture_output=True, check=False, timeout=30,
    )  # fmt: skip
    return {path.decode() for path in done.stdout.split(b"\0") if path}
