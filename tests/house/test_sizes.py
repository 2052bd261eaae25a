"""Files and functions stay small enough to be read at once (DESIGN §3)."""

import ast
from collections.abc import Iterable
from statistics import median

from tests.house.tree import Function, Module, functions, module, modules

FILE_LINES = 400
FUNCTION_LINES = 45
MEDIAN_LINES = 10


def length(function: Function) -> int:
    """Lines from `def` to the end, without the docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is None:
        return lines
    docstring = function.body[0]
    return lines - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


def is_stub(function: Function) -> bool:
    """A protocol's method: a signature that says `...`, which would only flatter the median."""
    last = function.body[-1]
    return isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant) and last.value.value is ...


def long_files(sources: Iterable[Module]) -> list[str]:
    counted = [(source.place, len(source.text.splitlines())) for source in sources]
    return [f"{place}: {lines} lines" for place, lines in counted if lines > FILE_LINES]


def long_functions(sources: Iterable[Module]) -> list[str]:
    return [
        f"{source.place}:{function.lineno} {function.name}: {length(function)} lines"
        for source in sources
        for function in functions(source.tree)
        if length(function) > FUNCTION_LINES
    ]


def median_length(sources: Iterable[Module]) -> float:
    lengths = [length(each) for source in sources for each in functions(source.tree) if not is_stub(each)]
    return median(lengths or [0])


def test_no_file_is_too_long() -> None:
    """A file that holds two ideas hides one of them."""
    found = long_files(modules("src", "docs"))

    assert [] == found


def test_no_function_is_too_long() -> None:
    """What does not fit the eye is not reviewed."""
    found = long_functions(modules("src", "docs"))

    assert [] == found


def test_most_functions_are_short() -> None:
    """The limit for one function must not become the habit of all."""
    middle = median_length(modules("src"))

    assert middle <= MEDIAN_LINES


def test_a_long_file_is_seen() -> None:
    """The rule can fail, and 400 lines are still allowed."""
    found = long_files([module("x = 1\n" * 400), module("x = 1\n" * 401, "src/clew/long.py")])

    assert ["src/clew/long.py: 401 lines"] == found


def test_a_long_function_is_seen_and_its_docstring_is_free() -> None:
    """Explaining must never cost the room that the code needs."""
    body = "    x = 1\n" * 44
    docstring = '    """One.\n\n    Two.\n    """\n'

    found = long_functions(
        [module(f"def fits():\n{docstring}{body}"), module(f"def long():\n{docstring}{body}    x\n")]
    )

    assert ["src/clew/core/planted.py:1 long: 46 lines"] == found


def test_stubs_do_not_flatter_the_median() -> None:
    """Otherwise a file of protocols would pay for a file of long functions."""
    stub = 'def stub():\n    """Says it."""\n    ...\n'

    middle = median_length([module(stub * 9 + "def real():\n" + "    x = 1\n" * 11)])

    assert 12 == middle
