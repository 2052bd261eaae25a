"""The floors of DESIGN §3 hold, in the import graph and in what each room may know of the world outside."""

import ast
import logging
import sys
from pathlib import Path

import grimp
import pytest
from importlinter.cli import lint_imports

from tests.house.tree import ROOT, Module, module, modules

# Room -> third-party libraries it may know. A face may know its own; a room not named here knows only msgspec.
LIBRARIES = {"cli": {"msgspec", "cyclopts", "rich"}, "integrations": {"msgspec", "opentelemetry"}, "errors": set[str]()}


def foreign_libraries(source: Module) -> list[str]:
    """The third-party libraries that a module imports and its room may not know."""
    room = source.dotted.split(".")[1] if "." in source.dotted else ""
    allowed = LIBRARIES.get(room, {"msgspec"}) | set(sys.stdlib_module_names) | {"clew"}
    names = [alias.name for node in ast.walk(source.tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in ast.walk(source.tree) if isinstance(node, ast.ImportFrom)]
    return [f"{source.place} {name}" for name in sorted({name.split(".")[0] for name in names} - allowed)]


def living_paths(source: Module) -> list[str]:
    """What a module takes of `pathlib` that can touch a disk."""
    whole = [alias.name for node in ast.walk(source.tree) if isinstance(node, ast.Import) for alias in node.names]
    parts = [node for node in ast.walk(source.tree) if isinstance(node, ast.ImportFrom) and node.module == "pathlib"]
    taken = [alias.name for node in parts for alias in node.names] + [name for name in whole if name == "pathlib"]
    return [f"{source.place} {name}" for name in taken if not name.startswith("Pure")]


def lint(config: Path) -> int:
    """import-linter switches off the loggers of everybody else in its process; they are switched on again."""
    known = [each for each in logging.root.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    before = [logger.disabled for logger in known]
    try:
        return lint_imports(config_filename=str(config), no_cache=True)
    finally:
        for logger, disabled in zip(known, before, strict=True):
            logger.disabled = disabled


def test_the_linter_leaves_the_loggers_as_they_were() -> None:
    """A test behind it in this process would hear nothing of a run, and fail or pass for that alone."""
    logger = logging.getLogger("clew.run")

    lint(ROOT / "pyproject.toml")

    assert not logger.disabled


def test_the_floors_hold() -> None:
    """A floor that is skipped once is no floor: the folder listing must stay the architecture."""
    status = lint(ROOT / "pyproject.toml")

    assert 0 == status


def test_a_room_without_a_floor_is_seen(tmp_path: Path) -> None:
    """A new room must be given its place before its first import."""
    config = tmp_path / "pyproject.toml"
    config.write_text((ROOT / "pyproject.toml").read_text("utf-8").replace('"disk | core", ', '"core", '), "utf-8")

    status = lint(config)

    assert 1 == status


def test_nobody_inside_enters_by_the_public_face() -> None:
    """The face re-exports the rooms; a room that imported it would close a circle that no layer shows."""
    importers = grimp.build_graph("clew", cache_dir=None).find_modules_that_directly_import("clew")

    assert set() == importers


def test_msgspec_is_the_only_library_below_the_faces() -> None:
    """Whoever embeds clew gets one dependency, whatever framework caps it."""
    found = [finding for source in modules("src") for finding in foreign_libraries(source)]

    assert [] == found


def test_core_and_views_know_only_pure_paths() -> None:
    """A path is a value that a tool may return; only one that can be opened would be I/O."""
    found = [finding for source in modules("src/clew/core", "src/clew/views") for finding in living_paths(source)]

    assert [] == found


@pytest.mark.parametrize("text", ["import pathlib", "from pathlib import Path", "from pathlib import PurePath, Path"])
def test_a_living_path_is_seen(text: str) -> None:
    """The rule above can fail."""
    found = living_paths(module(text))

    assert 1 == len(found)


def test_a_library_too_many_is_seen() -> None:
    """The rule above can fail."""
    found = foreign_libraries(module("def f():\n    from rich.table import Table\n"))

    assert ["src/clew/core/planted.py rich"] == found
