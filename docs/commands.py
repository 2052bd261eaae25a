"""Write `docs/cli.md` from the source of the command: every command, its example, its options. Imports nothing of clew.

python docs/commands.py
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "cli.md"
CLI = ROOT / "src" / "clew" / "cli"
SOURCES = ("app", "deciding", "session", "screen", "limits")

HEAD = """\
# The command

<!-- Written by `python docs/commands.py` from the source. Do not edit. -->

`RUN` is any unique part of a run's id, or `@last`. stdout is the answer, stderr is progress. Only a
terminal is ever asked, whether a call may start, and never with `--no-input` or `--json`: no pipe can say yes.
"""

CODES = """\
## Exit codes

| exit | meaning |
|---|---|
| 0 | done, or the question was answered |
| 1 | a fault of clew itself (traceback with `-vv`) |
| 2 | wrong usage; nothing was touched |
| 3 | the run ended failed or aborted |
| 4 | refused: not legal in this state, or a changed configuration or input |
| 5 | paused at a limit |
| 10 | no such home or run |
| 11 | held by another writer, or its end is not proven |
| 12 | stored bytes are not what clew wrote |
| 13 | the machine refused: disk full, denied, sync failed |
| 20 | paused: an approval is wanted |
| 21 | paused: an effect needs a person |
| 22 | paused: the agent raised |
| 23 | paused on request |
| 130 / 143 | paused by Ctrl-C / SIGTERM |
"""


def page(commands: str, screen: str, limits: str) -> str:
    """The whole of `docs/cli.md` from the text of the commands, of `screen.py` and of `limits.py`."""
    nodes = ast.parse(commands).body
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.decorator_list]
    functions.sort(key=_place)
    limited = ["## Limits of `clew run` and `clew resume`", "", *_table(_fields(ast.parse(limits), "Limits")), ""]
    everywhere = ["## Options of every command", "", *_table(_fields(ast.parse(screen)))]
    return "\n".join([HEAD, *map(_section, functions), *limited, *everywhere, "", CODES])


def read() -> str:
    """The page as the source is now."""
    app, deciding, session, screen, limits = ((CLI / f"{name}.py").read_text("utf-8") for name in SOURCES)
    return page(f"{app}\n{deciding}\n{session}", screen, limits)


def _place(function: ast.FunctionDef) -> float:
    """Where the help lists a command."""
    words = (word for made in function.decorator_list if isinstance(made, ast.Call) for word in made.keywords)
    return next(float(ast.literal_eval(word.value)) for word in words if word.arg == "sort_key")


def _section(function: ast.FunctionDef) -> str:
    told, _, arguments = (ast.get_docstring(function) or "").partition("Args:\n")
    *paragraphs, example = [" ".join(paragraph.split("\n")) for paragraph in told.strip().split("\n\n")]
    said = dict(re.findall(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", arguments, flags=re.MULTILINE))
    rows = [(name, re.sub(r"\s+", " ", said[each])) for each, name in _names(function).items() if each in said]
    lines = [
        f"## `clew {_family(function)}{function.name}`",
        "",
        f"    {_usage(function)}",
        "",
        "\n\n".join(paragraphs),
        "",
    ]
    lines += ["Example:", "", f"    {example.removeprefix('Example: ')}", ""]
    return "\n".join(lines + ([*_table(rows), ""] if rows else []))


def _family(function: ast.FunctionDef) -> str:
    """The word in front of a command that is one of several about the same thing."""
    made = next(each for each in function.decorator_list if isinstance(each, ast.Call))
    owner = ast.unparse(made.func).removesuffix(".command")
    return "" if owner == "app" else f"{owner} "


def _names(function: ast.FunctionDef) -> dict[str, str]:
    """How each parameter is typed on the command line."""
    given = function.args
    positional = [*given.posonlyargs, *([given.vararg] if given.vararg else [])]
    names = {each.arg: _named(each.annotation) or each.arg.upper() for each in positional}
    options = [each for each in given.kwonlyargs if each.arg not in ("options", "limits")]
    return names | {each.arg: _named(each.annotation) or f"--{each.arg.replace('_', '-')}" for each in options}


def _named(annotation: ast.expr | None) -> str:
    """The names that `Parameter(name=…)` gives, joined; empty when there are none."""
    calls = [node for node in ast.walk(annotation) if isinstance(node, ast.Call)] if annotation else []
    found = [keyword.value for call in calls for keyword in call.keywords if keyword.arg == "name"]
    value = ast.literal_eval(found[0]) if found else ""
    return value if isinstance(value, str) else ", ".join(value)


def _usage(function: ast.FunctionDef) -> str:
    (command,) = function.decorator_list
    assert isinstance(command, ast.Call)
    written = [ast.literal_eval(keyword.value) for keyword in command.keywords if keyword.arg == "usage"]
    if written:
        return str(written[0]).removeprefix("Usage: ")
    given, names = function.args, _names(function)
    optional = given.posonlyargs[len(given.posonlyargs) - len(given.defaults) :] if given.defaults else []
    words = [f"[{names[each.arg]}]" if each in optional else names[each.arg] for each in given.posonlyargs]
    needed = [each.arg for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    return " ".join(["clew", function.name, *words, *(f"{names[each]} {each.upper()}" for each in needed), "[OPTIONS]"])


def _fields(module: ast.Module, name: str = "Options") -> list[tuple[str, str]]:
    """Options that several commands take: the fields of a class, each with the text below it."""
    options = next(node for node in module.body if isinstance(node, ast.ClassDef) and node.name == name)
    pairs = zip(options.body, options.body[1:], strict=False)
    return [
        (_named(field.annotation) or f"--{ast.unparse(field.target).replace('_', '-')}", ast.literal_eval(text.value))
        for field, text in pairs
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    ]


def _table(rows: list[tuple[str, str]]) -> list[str]:
    cells = [(name.replace("|", "\\|"), text.replace("|", "\\|")) for name, text in rows]
    return ["| | |", "|---|---|", *(f"| `{name}` | {text} |" for name, text in cells)]


if __name__ == "__main__":
    PAGE.write_text(read(), "utf-8", newline="\n")
