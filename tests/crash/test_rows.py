"""The table names tests that exist."""

import ast
import tomllib

from tests.crash.rows import ROWS
from tests.house.tree import ROOT


def missing(named: str) -> bool:
    """Is there no such file, or no such function in it?"""
    file, _, function = named.partition("::")
    path = ROOT / file
    if not path.is_file():
        return True
    if not function:
        return False
    tree = ast.parse(path.read_text("utf-8"))
    return function not in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_each_test_of_the_table_is_there() -> None:
    """A row whose test was renamed away would claim what nobody holds."""
    found = [(number, named) for number, row in ROWS.items() for named in row.tests if missing(named)]

    assert [] == found


def test_a_missing_test_is_seen() -> None:
    """The rule can fail."""
    found = [missing("tests/none.py"), missing("tests/crash/test_rows.py::test_none"), missing("tests/crash/rows.py")]

    assert [True, True, False] == found


def test_each_module_of_the_ground_is_there() -> None:
    """One that was renamed away would count as covered whole."""
    settings = tomllib.loads((ROOT / "tests" / "crash" / "ground.toml").read_text("utf-8"))
    modules = settings["tool"]["coverage"]["report"]["include"]

    assert [] == [name for name in modules if not (ROOT / name).is_file()]
    assert f" {len(modules)} modules " in ROWS[31].crash
