"""The table names tests that exist."""

import ast

from tests.crash.rows import ROWS
from tests.house.tree import ROOT


def missing(named: str) -> bool:
    """Is there no such file, or no such function in it?"""
    file, _, function = named.partition("::")
    path = ROOT / file
    if not path.is_file():
        return True
    tree = ast.parse(path.read_text("utf-8"))
    return bool(function) and function not in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_each_test_of_the_table_is_there() -> None:
    """A row whose test was renamed away would claim what nobody holds."""
    found = [(number, named) for number, row in ROWS.items() for named in row.tests if missing(named)]

    assert [] == found


def test_a_missing_test_is_seen() -> None:
    """The rule can fail."""
    found = [missing("tests/none.py"), missing("tests/crash/test_rows.py::test_none"), missing("tests/crash/rows.py")]

    assert [True, True, False] == found
