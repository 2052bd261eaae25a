"""The documents name everything that a user can meet: commands, error codes, record kinds, events (STYLE, habit 15)."""

import ast
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from typing import get_args

import pytest

import clew
from clew.core.records import Kind
from docs import assurance, commands, generate, rooms
from tests.house.tree import ROOT, Module, module, modules

COMMANDS = (
    "run", "ls", "show", "resume", "settle", "approve", "deny", "abort", "pause", "steer", "verify", "unlock", "doctor",
    "find", "certify", "diff", "restore", "prune",
)  # fmt: skip

FAMILIES = '''
class ClewError(Exception):
    """Any."""
    exit_code = 1

class Refused(ClewError):
    """Not legal.

    More.
    """
    exit_code = 4
'''

# Where a code cannot be read in the source -> why.
AT_RUN_TIME: dict[str, str] = {}


def text_of(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def unnamed(words: Iterable[str], text: str) -> list[str]:
    """The words that a page never puts in code: alone between backticks, or at the start of such a span."""
    spans = set(re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)))
    return sorted(word for word in words if not any(span == word or span.startswith(f"{word} ") for span in spans))


def event_types(source: Module) -> set[str]:
    """The event types that a module writes: the literal under `type` in a dict."""
    dicts = (node for node in ast.walk(source.tree) if isinstance(node, ast.Dict))
    pairs = (pair for node in dicts for pair in zip(node.keys, node.values, strict=True))
    named = (value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "type")
    return {str(value.value) for value in named if isinstance(value, ast.Constant)}


@cache
def ours() -> generate.Source:
    """The package, read once."""
    return generate.read()


def planted(**files: str) -> generate.Source:
    texts = {"errors.py": FAMILIES, **{f"{name}.py": text for name, text in files.items()}}
    return generate.understand({place: ast.parse(text) for place, text in texts.items()})


def test_the_page_of_the_rooms_is_the_source() -> None:
    """Who reads the code for the first time is led by it, to rooms and modules that are there."""
    assert rooms.page() == text_of("architecture.md")


def test_the_page_of_what_was_tried_is_the_table_of_the_tests() -> None:
    """A count that nobody keeps up is a claim that nobody may make."""
    assert assurance.page() == text_of("assurance.md")


def test_every_command_is_documented() -> None:
    """A command that no page names does not exist for its user."""
    found = unnamed((f"clew {command}" for command in COMMANDS), text_of("cli.md"))

    assert [] == found


def test_every_public_name_is_on_a_page() -> None:
    """What is exported and explained nowhere is found by nobody, or by accident."""
    pages = ["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md") if path.name != "errors.md")]
    text = "\n".join((ROOT / page).read_text("utf-8") for page in pages)

    found = [name for name in clew.__all__ if not re.search(rf"\bclew\.{name}\b", text)]

    assert [] == found


def test_every_record_kind_and_event_is_documented() -> None:
    """The journal is for anyone to read, so the page that explains it must be whole."""
    written = set().union(*(event_types(source) for source in modules("src/clew/core", "src/clew/runtime")))

    found = unnamed({*get_args(Kind), *written}, text_of("format.md"))

    assert [] == found


def test_the_page_of_errors_is_the_source() -> None:
    """Written by hand it would be wrong within a week; `python docs/generate.py` writes it."""
    page = generate.page(ours())

    assert page == text_of("errors.md")


def test_the_page_of_commands_is_the_source() -> None:
    """The help and the page say the same; `python docs/commands.py` writes it."""
    page = commands.read()

    assert page == text_of("cli.md")


def test_every_code_can_be_read_in_the_source() -> None:
    """A code that is put together at run time can be neither documented nor searched for."""
    found = [site for site in generate.unreadable(ours()) if site.split(":")[0] not in AT_RUN_TIME]

    assert [] == found


def test_every_error_has_a_next_step() -> None:
    """An error without one leaves its reader where they were."""
    lacking = [f"{site.place} {site.code}" for site in generate.sites(ours()) if not site.next]

    assert [] == lacking


def test_a_missing_word_is_seen() -> None:
    """The pages are searched for whole words in code, not for letters."""
    found = unnamed(["clew run", "clew show", "run"], "The `clew run FILE:AGENT` command shows a run, see clew show.")

    assert ["clew show", "run"] == found


def test_an_event_is_seen() -> None:
    """The types are taken from what is written, not from a list beside it."""
    found = event_types(module('def f(): return {"type": "leg_ended", "leg": 1, **{"type": "inner", "x": y}}'))

    assert {"leg_ended", "inner"} == found


def test_a_code_is_read_with_its_family_and_next_step() -> None:
    """The plain case: the error is made where it is raised."""
    source = planted(core='raise errors.Refused(f"run {name!r} is over", code="run_over", next="Start another.")')

    found = generate.sites(source)

    assert [generate.Site("run_over", "Refused", "run … is over", "Start another.", "core.py")] == found


@pytest.mark.parametrize(
    "call", ['_no("a", "it is so", "Do it.")', '_no(code="a", why="it is so", step="Do it.")', '_via("a")']
)
def test_a_code_is_read_through_a_function_that_makes_the_error(call: str) -> None:
    """Files that raise one family often have a function of their own for it."""
    maker = "def _no(code, why, step):\n    return Refused(why, code=code, next=step)\n"
    maker += 'def _via(code):\n    return _no(code, "it is so", "Do it.")\n'

    found = generate.sites(planted(core=f"{maker}raise {call}"))

    assert {(site.code, site.family, site.found, site.next) for site in found} == {
        ("a", "Refused", "it is so", "Do it.")
    }


def test_a_private_function_of_another_file_is_no_maker() -> None:
    """Many files have a `_corrupt` of their own, each with its own words."""
    maker = "def _no(code):\n    return Refused('{}', code=code, next='Do it.')\nraise _no('a')\n"

    found = generate.sites(planted(one=maker.format("first"), two=maker.format("second")))

    assert [("first", "one.py"), ("second", "two.py")] == [(site.found, site.place) for site in found]


@pytest.mark.parametrize(
    "turned",
    [
        "def turn(fault: Fault):\n    return Refused(f'no: {fault.why}', code=fault.code, next='Do it.')\n",
        "try:\n    pass\nexcept Fault as fault:\n    raise Refused('no: …', code=fault.code, next='Do it.')\n",
    ],
)
def test_a_code_is_read_from_the_fault_that_carried_it(turned: str) -> None:
    """What is wrong and where it stands are often known in two different places; a default code counts too."""
    fault = "class Fault(Exception):\n    def __init__(self, why, code='usual'): ...\n"
    body = "".join(f"    {line}\n" for line in turned.splitlines())

    found = generate.sites(planted(one=f"{fault}raise Fault('x')\nraise Fault('x', 'rare')\n", two=f"def f():\n{body}"))

    assert [(site.code, site.family, site.found) for site in found] == [
        ("rare", "Refused", "no: …"),
        ("usual", "Refused", "no: …"),
    ]


def test_words_that_stand_at_the_top_of_a_file_are_read() -> None:
    """A next step that many errors share is written once."""
    found = generate.sites(planted(core='_STEP = "Do it."\nraise Refused("x" + str(y), code="a", next=_STEP)'))

    assert [("x…", "Do it.")] == [(site.found, site.next) for site in found]


def test_both_codes_of_a_choice_are_read() -> None:
    """A choice between two literals is still readable."""
    found = generate.sites(planted(core='raise Refused("x", code="a" if y else "b", next="z")'))

    assert ["a", "b"] == [site.code for site in found]


def test_a_next_step_stands_beside_the_code_that_it_goes_with() -> None:
    """Both come of one question; what is to be done about a failed run is no advice for a paused one."""
    text = 'raise Refused("x", code="a" if y else "b", next="for a" if y else "for b")'

    found = generate.sites(planted(core=text))

    assert [("a", "for a"), ("b", "for b")] == [(site.code, site.next) for site in found]


def test_every_word_that_an_id_or_a_name_is_checked_for_is_spelled_out() -> None:
    """Their codes are made of that word, so the generator cannot read them in the source."""
    calls = [node for each in modules("src/clew") for node in ast.walk(each.tree) if isinstance(node, ast.Call)]
    named = {"check_id": "invalid_{what}_id", "check_name": "invalid_{what}_name"}
    made = {
        named[call.func.id].format(what=call.args[1].value)
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id in named and len(call.args) > 1
        if isinstance(call.args[1], ast.Constant)
    }

    missing = made - {code for codes in generate.SPELLED.values() for code in codes}

    assert set() == missing


def test_a_code_made_at_run_time_is_seen() -> None:
    """The rule can fail, and the function that is given its code is not what it means."""
    maker = "def f(code):\n    raise Refused('x', code=code, next='z')\n"

    found = generate.unreadable(planted(core=f"{maker}raise Refused('x', code=table[y], next='z')"))

    assert ["core.py:3 Refused"] == found


def test_the_page_groups_codes_by_family() -> None:
    """Whose move it is comes first, the exit code beside it."""
    page = generate.page(planted(core='raise Refused("a|b", code="run_over", next="Start another.")'))

    assert page.endswith(
        "\n## Refused: exit 4\n\nNot legal.\n\n| code | found | next | raised in |\n|---|---|---|---|\n"
        "| `run_over` | a\\|b | Start another. | `core.py` |\n"
    )


def test_what_is_advised_to_be_installed_is_what_an_extra_needs() -> None:
    """No index has clew, so its extras cannot be named; a version that is asked for twice must be the same one."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    advised = {
        name: re.findall(r"'([\w-]+>=[\d.]+)'", (ROOT / "src" / "clew" / place).read_text("utf-8"))
        for name, place in (("cli", "cli/__init__.py"), ("otel", "integrations/otel.py"))
    }

    assert {name: extras[name] for name in advised} == advised
