"""The public face: what `import clew` gives, and what it costs (STYLE, habit 14)."""

import ast
import subprocess
import sys
import tomllib
from types import ModuleType

import clew
from clew.runtime.recovery import VERSION
from tests.house.tree import ROOT, SRC, module

# The names that DESIGN promises to the user, of the rooms that exist. Adding is free, taking away is a deprecation.
PROMISED = {
    "Call", "CannotTell", "CoreMindSession", "Corrupt", "Denied", "DidNotHappen", "DurableOperation", "EffectReceipt",
    "Failed", "FileRunStore", "GiveUp", "Happened", "Held", "Home", "LogContext", "NothingHappened", "Refused",
    "ResultNotRecorded", "Run", "RunBudget", "RunMetrics", "RunResult", "RunState", "Stop", "Storage", "SyncRun",
    "ToolError", "Turn", "Usage", "UsageError", "Verdict", "agent", "prepare_run_resume", "tool",
}  # fmt: skip


def top_level_imports(statement: str) -> set[str]:
    """The top-level packages that a statement brings into a fresh interpreter."""
    code = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def exposed(package: ModuleType) -> set[str]:
    """The public names of a package, its own rooms aside."""
    return {
        name
        for name, value in vars(package).items()
        if not name.startswith("_") and not (isinstance(value, ModuleType) and value.__name__.startswith("clew."))
    }


def deeds(text: str) -> list[str]:
    """The statements of a face that do more than re-export."""
    idle = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
    tree = module(text).tree
    return [ast.unparse(node) for node in tree.body if not isinstance(node, idle) and not _is_docstring(node)]


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def test_the_version_in_the_journals_is_the_packages() -> None:
    """Each leg names the clew that wrote it; two places for one number drift apart."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    assert project["version"] == VERSION


def test_the_face_is_what_it_says() -> None:
    """A name that leaks is a name that somebody will depend on."""
    face = set(clew.__all__)

    assert exposed(clew) == face


def test_every_promised_name_is_there() -> None:
    """The design, the README and the journeys speak these names."""
    missing = PROMISED - set(clew.__all__)

    assert set() == missing


def test_the_face_does_nothing() -> None:
    """It re-exports; whatever it did would be done to everyone who imports it."""
    found = deeds((SRC / "clew" / "__init__.py").read_text("utf-8"))

    assert [] == found


def test_importing_clew_costs_msgspec_and_nothing_else() -> None:
    """A library must not bring a terminal framework into a web server."""
    free = top_level_imports("import msgspec") | set(sys.stdlib_module_names)

    brought = top_level_imports("import clew") - free

    assert {"clew"} == brought


def test_a_leak_is_seen() -> None:
    """The first rule can fail; the rooms themselves are no leak."""
    package = ModuleType("clew")
    package.__dict__.update(__all__=["Run"], Run=1, leaked=2, sys=sys, core=ModuleType("clew.core"))

    names = exposed(package)

    assert {"Run", "leaked", "sys"} == names


def test_a_heavy_import_is_seen() -> None:
    """The measurement can fail."""
    brought = top_level_imports("import rich.text")

    assert "rich" in brought


def test_a_deed_is_seen() -> None:
    """The third rule can fail."""
    found = deeds('"""Face."""\nfrom clew.core import canon\n__all__ = ["canon"]\nprint(1)\n')

    assert ["print(1)"] == found
