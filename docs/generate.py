"""Write `docs/errors.md` from the source: every error code, what was found, and what to do. Imports nothing of clew.

python docs/generate.py
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "errors.md"
SOURCE = ROOT / "src" / "clew"

Function = ast.FunctionDef | ast.AsyncFunctionDef

# A code that is put together from a closed set of words -> what it may become.
SPELLED = {
    "invalid_{what}_id": (
        "invalid_run_id",
        "invalid_step_id",
        "invalid_call_id",
        "invalid_control_id",
        "invalid_checkpoint_id",
        "invalid_session_id",
    ),
    "invalid_{what}_name": ("invalid_agent_name", "invalid_tool_name", "invalid_step_name"),
}

HEAD = """\
# Errors

<!-- Written by `python docs/generate.py` from the source. Do not edit. -->

Every error that clew raises on purpose has a code, facts and a next step: `error.code`, `error.facts`, `error.next`.
Codes are stable and never reused. A family says whose move it is; its exit code is what the command ends with. `…`
stands for what was found.
"""


@dataclass(frozen=True)
class Family:
    """A class of errors: its exit code and what it means."""

    name: str
    exit_code: str
    meaning: str


@dataclass(frozen=True)
class Site:
    """One place in the source where an error is made. Empty texts are decided at run time."""

    code: str
    family: str
    found: str
    next: str
    place: str


@dataclass
class Source:
    """The parsed package: its families, faults that carry a code, and what makes an error of a code it is given."""

    trees: dict[str, ast.Module]
    families: dict[str, Family] = field(default_factory=dict)
    faults: dict[str, Function] = field(default_factory=dict)
    makers: dict[str, list["Maker"]] = field(default_factory=dict)


@dataclass(frozen=True)
class Maker:
    """A function with a parameter that becomes the code of an error, and the call in it that does so."""

    place: str
    function: Function
    call: ast.Call


def read(folder: Path = SOURCE) -> Source:
    """Parse every file of the package."""
    files = sorted(folder.rglob("*.py"))
    return understand({path.relative_to(folder).as_posix(): ast.parse(path.read_text("utf-8")) for path in files})


def understand(trees: dict[str, ast.Module]) -> Source:
    """Find the families in `errors.py`, and the makers everywhere."""
    families = _families(trees["errors.py"])
    classes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    starts = {(node.name, start) for node in classes for start in _functions(node) if start.name == "__init__"}
    faults = {name: start for name, start in starts if "code" in _parameters(start) and name not in families}
    source = Source(trees, families, faults)
    known = -1
    # A maker may call a maker: look again until nothing new is found.
    while known != (known := sum(map(len, source.makers.values()))):
        source.makers = _makers(source)
    return source


def sites(source: Source) -> list[Site]:
    """Every place that makes an error with a code that can be read in the source."""
    found = {
        _site(source, place, call, code)
        for place, tree in source.trees.items()
        for call in _calls(tree)
        for code in _codes(source, place, call)
    }
    return sorted(found, key=lambda site: (site.code, site.place, site.found, site.next))


def _site(source: Source, place: str, call: ast.Call, code: str) -> Site:
    asked = _part(source, place, call, "code")
    parts = (_side(_part(source, place, call, part), asked, code) for part in ("message", "next"))
    found, following = map(_text, parts)
    return Site(code, _family(source, place, call), found, following, place)


def _side(value: ast.expr | None, asked: ast.expr | None, code: str) -> ast.expr | None:
    """The side that goes with this code, where one question decides both."""
    if isinstance(value, ast.IfExp) and isinstance(asked, ast.IfExp) and ast.dump(value.test) == ast.dump(asked.test):
        return value.body if ast.unparse(asked.body) == repr(code) else value.orelse
    return value


def unreadable(source: Source) -> list[str]:
    """Calls of a family whose code is decided at run time, and not by a parameter of the function around it."""
    inner = {id(maker.call) for makers in source.makers.values() for maker in makers}
    return [
        f"{place}:{call.lineno} {_name(call)}"
        for place, tree in source.trees.items()
        if place != "errors.py"
        for call in _calls(tree)
        if _name(call) in source.families and id(call) not in inner and not _codes(source, place, call)
    ]


def page(source: Source) -> str:
    """The whole of `docs/errors.md`."""
    everything = sites(source)
    sections = [_section(family, everything) for family in source.families.values()]
    return "\n".join([HEAD, *filter(None, sections)]).rstrip() + "\n"


def _section(family: Family, everything: list[Site]) -> str:
    ours = [site for site in everything if site.family == family.name]
    if not ours:
        return ""
    lines = [f"## {family.name}: exit {family.exit_code}", "", family.meaning, ""]
    lines += ["| code | found | next | raised in |", "|---|---|---|---|"]
    lines += [_row(code, [site for site in ours if site.code == code]) for code in sorted({site.code for site in ours})]
    return "\n".join([*lines, ""])


def _row(code: str, ours: list[Site]) -> str:
    columns = ([site.found for site in ours], [site.next for site in ours], [f"`{site.place}`" for site in ours])
    cells = ["<br>".join(dict.fromkeys(text.replace("|", "\\|") for text in column if text)) for column in columns]
    return f"| `{code}` | " + " | ".join(cells) + " |"


def _families(tree: ast.Module) -> dict[str, Family]:
    families: dict[str, Family] = {}
    for node in tree.body:
        bases = [base.id for base in getattr(node, "bases", []) if isinstance(base, ast.Name)]
        if isinstance(node, ast.ClassDef) and (node.name == "ClewError" or any(base in families for base in bases)):
            inherited = next((families[base].exit_code for base in bases if base in families), "1")
            meaning = (ast.get_docstring(node) or "").split("\n\n")[0].replace("\n", " ")
            families[node.name] = Family(node.name, _exit_code(node) or inherited, meaning)
    return families


def _exit_code(node: ast.ClassDef) -> str:
    for part in node.body:
        if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "exit_code":
            return ast.unparse(part.value)
        if isinstance(part, ast.FunctionDef) and part.name == "exit_code":
            return "of the run's state"
    return ""


def _makers(source: Source) -> dict[str, list[Maker]]:
    makers: dict[str, list[Maker]] = {}
    for place, tree in source.trees.items():
        for function in _functions(tree):
            for call in _calls(function):
                code = _part(source, place, call, "code")
                maker = _giver(source, function, code) if code is not None else None
                if maker is not None and _name(call) != function.name:
                    name = _class_of(function, code) or function.name
                    makers.setdefault(name, []).append(Maker(place, maker, call))
    return makers


def _giver(source: Source, function: Function, code: ast.expr) -> Function | None:
    """The function whose parameter the code is: this one, or the `__init__` of the fault that it turns into one."""
    if isinstance(code, ast.Name) and code.id in _parameters(function):
        return function
    return source.faults.get(_class_of(function, code))


def _class_of(function: Function, code: ast.expr | None) -> str:
    """The class of `fault` in `code=fault.code`, by its annotation or by the `except` that caught it."""
    if not (isinstance(code, ast.Attribute) and code.attr == "code" and isinstance(code.value, ast.Name)):
        return ""
    caught = {node.name: node.type for node in ast.walk(function) if isinstance(node, ast.ExceptHandler)}
    declared = _parameters(function).get(code.value.id) or caught.get(code.value.id)
    return ast.unparse(declared).strip("'\"") if declared else ""


def _maker(source: Source, place: str, call: ast.Call) -> Maker | None:
    """What is called, when it is a maker: of the same file, or public."""
    name = _name(call)
    makers = source.makers.get(name, [])
    near = [maker for maker in makers if maker.place == place]
    return next(iter(near or ([] if name.startswith("_") else makers)), None)


def _family(source: Source, place: str, call: ast.Call) -> str:
    maker = None if _name(call) in source.families else _maker(source, place, call)
    return _family(source, maker.place, maker.call) if maker else _name(call)


def _part(source: Source, place: str, call: ast.Call, part: str) -> ast.expr | None:
    """The expression that becomes the code, the message or the next step, when this call makes an error."""
    if _name(call) in source.families:
        given = call.args[0] if part == "message" and call.args else _keyword(call, part)
        return _constant(source.trees[place], given)
    maker = _maker(source, place, call)
    if maker is None:
        return None
    inner = _part(source, maker.place, maker.call, part)
    if isinstance(inner, ast.Name) and inner.id in _parameters(maker.function):
        return _constant(source.trees[place], _argument(call, maker.function, inner.id))
    if part == "code" and isinstance(inner, ast.Attribute):
        return _argument(call, maker.function, inner.attr)
    return inner


def _codes(source: Source, place: str, call: ast.Call) -> list[str]:
    code = _part(source, place, call, "code")
    outcomes = list(_outcomes(code)) if code is not None else []
    plain = [node.value for node in outcomes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    patterns = [ast.unparse(node)[2:-1] for node in outcomes if isinstance(node, ast.JoinedStr)]
    return [*plain, *(code for pattern in patterns for code in SPELLED.get(pattern, ()))]


def _outcomes(value: ast.expr) -> Iterator[ast.expr]:
    """What an expression may become: both sides of a choice, else itself."""
    if isinstance(value, ast.IfExp):
        yield from _outcomes(value.body)
        yield from _outcomes(value.orelse)
    else:
        yield value


def _text(value: ast.expr | None) -> str:
    """A literal as a reader sees it, with `…` for what is decided at run time."""
    if isinstance(value, ast.IfExp):
        return "<br>".join(map(_text, _outcomes(value)))
    if isinstance(value, ast.Constant):
        return str(value.value)
    if isinstance(value, ast.JoinedStr):
        return "".join(_text(part) for part in value.values)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        return _text(value.left) + _text(value.right)
    return "…" if value else ""


def _constant(tree: ast.Module, value: ast.expr | None) -> ast.expr | None:
    """What a name means that the file gives a value at its top; anything else is itself."""
    if not isinstance(value, ast.Name):
        return value
    assigned = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    targets = [node.targets[0] if isinstance(node, ast.Assign) else node.target for node in assigned]
    named = {ast.unparse(target): node.value for target, node in zip(targets, assigned, strict=True)}
    return named.get(value.id) or value


def _argument(call: ast.Call, function: Function, name: str) -> ast.expr | None:
    named = _keyword(call, name)
    if named is not None:
        return named
    places = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    if places[:1] in (["self"], ["cls"]) and (isinstance(call.func, ast.Attribute) or function.name == "__init__"):
        places = places[1:]
    index = places.index(name) if name in places else len(call.args)
    return call.args[index] if index < len(call.args) else _default(function, name)


def _default(function: Function, name: str) -> ast.expr | None:
    given = function.args
    positional = [argument.arg for argument in (*given.posonlyargs, *given.args)]
    defaults = dict(zip(reversed(positional), reversed(given.defaults), strict=False))
    defaults |= {
        arg.arg: value for arg, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value is not None
    }
    return defaults.get(name)


def _parameters(function: Function) -> dict[str, ast.expr | None]:
    given = function.args
    return {argument.arg: argument.annotation for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)}


def _functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _name(call: ast.Call) -> str:
    """The last part of what is called: `Refused` of `errors.Refused(…)`."""
    return ast.unparse(call.func).rpartition(".")[2]


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


if __name__ == "__main__":
    PAGE.write_text(page(read()), "utf-8", newline="\n")
