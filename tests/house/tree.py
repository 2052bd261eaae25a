"""The source tree as the house tests see it: files, their text and their syntax trees. No rule belongs here."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
TESTS = ROOT / "tests"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One file of Python: its place below the project's root, with `/`, its text and its tree."""

    place: str
    text: str
    tree: ast.Module

    @property
    def dotted(self) -> str:
        """The name under which it is imported, for files below `src`."""
        return self.place.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def module(text: str, place: str = "src/clew/core/planted.py") -> Module:
    """A module that exists only in a test."""
    return Module(place, text, ast.parse(text))


def modules(*folders: str) -> list[Module]:
    """Every file of Python below the named folders of the project."""
    return [_at(path) for path in _files(folders)]


def functions(tree: ast.AST) -> Iterator[Function]:
    """Every function and method, nested ones too."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


@cache
def _at(path: Path) -> Module:
    """Parsed once for all rules; none of them changes a tree."""
    return module(path.read_text("utf-8"), path.relative_to(ROOT).as_posix())


def _files(folders: tuple[str, ...]) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))
