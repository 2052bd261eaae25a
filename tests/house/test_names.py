"""Rules that only the syntax tree can hold: names, banned calls, late imports, silenced checks, sentences in tests."""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator

import pytest

from tests.house.tree import Module, functions, module, modules

EMPTY_NAMES = {"util", "utils", "helper", "helpers", "common", "manager", "managers", "misc", "stuff"}

# Full name -> its one home. Time and chance are injected; publishing is done in one place.
HOMES: dict[str, str | tuple[str, ...]] = {
    "time.time": "runtime/clock.py",
    "time.time_ns": "runtime/clock.py",
    "datetime.datetime.now": "runtime/clock.py",
    "datetime.datetime.utcnow": "runtime/clock.py",
    "datetime.datetime.today": "runtime/clock.py",
    "datetime.date.today": "runtime/clock.py",
    "uuid.uuid1": "runtime/clock.py",
    "uuid.uuid4": "runtime/clock.py",
    "os.urandom": "runtime/clock.py",
    "os.replace": ("disk/files.py", "disk/anchor.py"),
    "os.rename": ("disk/files.py", "disk/anchor.py"),
    "os.renames": "disk/files.py",
    "shutil.move": "disk/files.py",
    "open": "nowhere",
    "io.open": "nowhere",
}
CHANCE = ("random.", "secrets.")

# (module, imported) -> why it cannot stand at the top.
LATE_IMPORTS: dict[tuple[str, str], str] = {
    ("clew.cli", "clew.cli.app.serve"): "cyclopts and rich may be missing; then the command says how to install them",
    ("clew.cli.app", "clew.cli.certifying"): "who only looks at runs does not wait for all that tries agents",
}

SILENCERS = re.compile(r"#\s*(noqa|type:\s*ignore|pragma:\s*no\s*(cover|branch)|ruff:\s*noqa|mypy:)[^#]*(.*)")


def empty_names(source: Module) -> list[str]:
    """Names that say nothing: of the file, of its folders, of classes and functions."""
    words = [source.place.removesuffix(".py").split("/")[-1]]
    words += [node.name for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef)]
    words += [function.name for function in functions(source.tree)]
    return [f"{source.place} {word}" for word in words if EMPTY_NAMES & set(_parts(word))]


def _parts(name: str) -> list[str]:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower().split("_")


def banned_calls(source: Module) -> list[str]:
    """Mentions of a banned name outside its one home, and `Path.replace`, which is `os.replace` by another name."""
    aliases = dict(_aliases(source.tree))
    found = []
    for node in ast.walk(source.tree):
        name = _full_name(node, aliases)
        home = HOMES.get(name) or ("runtime/clock.py" if name.startswith(CHANCE) else "")
        if _moves_a_path(node, aliases):
            name, home = "Path.replace", "disk/files.py"
        if home and not source.place.endswith(home):
            found.append(f"{source.place}:{getattr(node, 'lineno', 0)} {name}")
    return found


def _aliases(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.asname or alias.name, alias.name) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)


def _full_name(node: ast.AST, aliases: dict[str, str]) -> str:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
        return aliases.get("open", "open")
    if isinstance(node, ast.Name) and node.id != "open":
        return aliases.get(node.id, "")
    if isinstance(node, ast.Attribute):
        owner = _full_name(node.value, aliases)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def _moves_a_path(node: ast.AST, aliases: dict[str, str]) -> bool:
    """`text.replace` takes two arguments, `datetime.replace` names; one bare argument is a path's, or an import's."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)) or _full_name(node.func, aliases):
        return False
    return node.func.attr in ("replace", "rename") and len(node.args) == 1 and not node.keywords


def late_imports(source: Module) -> list[str]:
    """Imports inside functions: a circle or a cost that somebody hid."""
    inside = (node for function in functions(source.tree) for node in ast.walk(function))
    found = []
    for node in {id(node): node for node in inside if isinstance(node, ast.Import | ast.ImportFrom)}.values():
        base = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        named = [f"{base}{alias.name}" for alias in node.names]
        found += [f"{source.place}:{node.lineno} {name}" for name in named if (source.dotted, name) not in LATE_IMPORTS]
    return found


def unexplained(source: Module) -> list[str]:
    """Silenced checks without a reason behind them or in a comment on the line above."""
    if not SILENCERS.search(source.text):
        return []
    comments = {token.start[0]: token for token in _comments(source.text)}
    found = []
    for line, token in comments.items():
        silenced = SILENCERS.search(token.string)
        above = comments.get(line - 1)
        explained_above = above is not None and above.line.lstrip().startswith("#") and _says(above.string)
        if silenced and not _says(silenced.group(3)) and not explained_above:
            found.append(f"{source.place}:{line} {token.string}")
    return found


def _comments(text: str) -> Iterator[tokenize.TokenInfo]:
    return (t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.COMMENT)


def _says(comment: str) -> bool:
    return SILENCERS.search(comment) is None and len(re.findall(r"[A-Za-z]{2,}", comment)) >= 2


def everywhere(rule: Callable[[Module], list[str]], *folders: str) -> list[str]:
    return [finding for source in modules(*folders) for finding in rule(source)]


def mute_tests(source: Module) -> list[str]:
    """Tests without a sentence on why they matter."""
    tests = (function for function in functions(source.tree) if function.name.startswith("test_"))
    return [f"{source.place}:{test.lineno} {test.name}" for test in tests if not ast.get_docstring(test)]


def test_names_say_something() -> None:
    """A drawer called `utils` is where the next idea gets lost."""
    found = everywhere(empty_names, "src", "tests", "examples", "docs")

    assert [] == found


def test_time_chance_and_publishing_have_one_home() -> None:
    """What is not injected can be neither replayed nor tested."""
    found = everywhere(banned_calls, "src")

    assert [] == found


def test_imports_stand_at_the_top() -> None:
    """A late import hides a circle from the reader, though not from the linter."""
    found = everywhere(late_imports, "src")

    assert [] == found


def test_a_silenced_check_says_why() -> None:
    """An ignore without a reason can never be taken back."""
    found = everywhere(unexplained, "src", "tests", "examples", "docs")

    assert [] == found


def test_every_test_says_why_it_matters() -> None:
    """A test that nobody understands is deleted or, worse, adapted."""
    found = everywhere(mute_tests, "tests")

    assert [] == found


@pytest.mark.parametrize("place", ["src/clew/core/utils.py", "src/clew/core/path_helpers.py"])
def test_an_empty_file_name_is_seen(place: str) -> None:
    """The rule can fail."""
    found = empty_names(module("", place))

    assert 1 == len(found)


@pytest.mark.parametrize("text", ["class RunManager: ...", "def common_part(): ...", "class HTTPHelper: ..."])
def test_an_empty_name_is_seen(text: str) -> None:
    """The rule can fail inside a file, in both ways of writing."""
    found = empty_names(module(text))

    assert 1 == len(found)


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.time()",
        "from time import time_ns as now\nnow()",
        "import datetime as dt\ndt.datetime.now(dt.UTC)",
        "from datetime import datetime\nclock = datetime.utcnow",
        "from uuid import uuid4\nuuid4()",
        "import random\nrandom.random()",
        "from secrets import token_hex\ntoken_hex(4)",
        "import os\nos.replace('a', 'b')",
        "from os import rename\nrename('a', 'b')",
        "path.replace(target)",
        "path.rename(target)",
        "open('x')",
    ],
)
def test_a_banned_call_is_seen(text: str) -> None:
    """Each way in, by whatever name it was imported."""
    found = banned_calls(module(text))

    assert 1 == len(found)


@pytest.mark.parametrize(
    "text", ["'a'.replace('a', 'b')", "at.replace(tzinfo=UTC)", "path.open('rb')", "open = 1", "import m\nm.replace(x)"]
)
def test_a_harmless_call_is_left_alone(text: str) -> None:
    """A rule that cries wolf would be switched off."""
    found = banned_calls(module(text))

    assert [] == found


def test_a_home_may_do_what_it_is_for() -> None:
    """The one home is named by its full place, so a second `clock.py` is not one."""
    text = "import time\ntime.time()"

    found = (
        banned_calls(module(text, "src/clew/runtime/clock.py")),
        banned_calls(module(text, "src/clew/core/clock.py")),
    )

    assert ([], ["src/clew/core/clock.py:2 time.time"]) == found


def test_a_late_import_is_seen_once() -> None:
    """The rule can fail, and nested functions do not double the finding."""
    found = late_imports(module("import os\ndef f():\n    def g():\n        from clew.core import canon\n"))

    assert ["src/clew/core/planted.py:4 clew.core.canon"] == found


@pytest.mark.parametrize(
    "line", ["x = 1  # noqa: E501", "x = 1  # type: ignore[override]", "x = 1  # pragma: no cover", "# ruff: noqa"]
)
def test_an_unexplained_silence_is_seen(line: str) -> None:
    """The rule can fail for each of the tools."""
    found = unexplained(module(f"y = 1  # a remark on another line\n{line}\n"))

    assert 1 == len(found)


@pytest.mark.parametrize(
    "text",
    [
        "x = 1  # type: ignore[misc]  # a struct becomes a dict\n",
        "# a struct becomes a dict\nx = 1  # type: ignore[misc]\n",
    ],
)
def test_an_explained_silence_is_left_alone(text: str) -> None:
    """A reason behind it or above it is enough."""
    found = unexplained(module(text))

    assert [] == found


def test_a_mute_test_is_seen() -> None:
    """The rule can fail."""
    found = mute_tests(module("def test_x():\n    assert True\n", "tests/core/test_planted.py"))

    assert ["tests/core/test_planted.py:1 test_x"] == found
