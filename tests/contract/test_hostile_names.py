"""Bad input, part 1: names that mean nothing or too much, agents that cannot be loaded, arguments that are not JSON."""

import asyncio
import datetime
import math
import sys
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.contract.hostile import WHO, Place, differences, fingerprint

DEEDS = (
    ("show", "{run}"),
    ("show", "{run}", "--log"),
    ("show", "{run}", "--effects"),
    ("resume", "{run}"),
    ("resume", "{run}", "--dry-run"),
    ("settle", "{run}", "happened", *WHO),
    ("pause", "{run}"),
    ("abort", "{run}"),
    ("verify", "{run}"),
    ("unlock", "{run}", "--nonce", "n1", *WHO),
    ("verify", "{run}", "--accept-loss", *WHO),
)


def typed(deed: tuple[str, ...], run: str) -> list[str]:
    return [word.format(run=run) for word in deed]


@pytest.mark.parametrize("deed", DEEDS, ids=" ".join)
def test_an_unknown_run_is_named_by_every_command(place: Place, deed: tuple[str, ...]) -> None:
    """A typing mistake must show itself, not make anything."""
    place.done()

    met = place.refused(*typed(deed, "zzz"))

    assert (10, "unknown_run", []) == met.short
    assert ("there is no run 'zzz'", "List the runs of this home with `clew ls`.") == (met.message, met.next)


@pytest.mark.parametrize("deed", DEEDS, ids=" ".join)
def test_an_ambiguous_id_is_never_one_of_its_runs(place: Place, deed: tuple[str, ...]) -> None:
    """The wrong run would be settled, aborted or paid for."""
    place.done()
    place.waiting()

    met = place.refused(*typed(deed, "k3f"))

    assert (2, "ambiguous_run_id", []) == met.short
    assert "'k3f' means 2 runs: 'k3f9x2', 'k3fb7q'" == met.message
    assert "Type more characters of the run that you mean." == met.next


@pytest.mark.parametrize(
    ("run", "exit_code", "code"),
    [
        ("", 10, "unknown_run"),
        ("..", 10, "unknown_run"),
        ("../../etc/passwd", 10, "unknown_run"),
        ("k3fb7q/head", 10, "unknown_run"),
        ("k" * 5000, 10, "unknown_run"),
        ("\udcff\udcfe", 10, "unknown_run"),
        ("a\nb", 10, "unknown_run"),
        ("@first", 10, "unknown_run"),
    ],
    ids=["empty", "dots", "path", "slash", "long", "not UTF-8", "line end", "no such word"],
)
def test_a_name_that_is_no_id_finds_nothing_and_fits_on_a_line(
    place: Place, run: str, exit_code: int, code: str
) -> None:
    """A path is made of an id and of nothing else; what is echoed is printable and short."""
    place.done()

    met = place.refused("show", run)

    assert (exit_code, code, []) == met.short
    assert len(met.message) < 300
    assert met.message.isprintable()


@pytest.mark.parametrize("run_id", ["", "-x", "a b", "../x", "con", "x" * 129, "ünsal", "a:b"])
def test_an_id_that_no_file_may_have_starts_nothing(place: Place, run_id: str) -> None:
    """Refused before there is a home."""
    met = place.refused("run", "agent.py:settle", "1042", f"--run-id={run_id}")

    assert (2, "invalid_run_id", False) == (met.exit, met.code, place.home.exists())
    assert met.next.startswith("Use at most 128 ASCII letters")


BROKEN = {
    "import nothing_of_that_name": "(line 1): ModuleNotFoundError: No module named 'nothing_of_that_name'",
    "x = 1\ndef y(:": "SyntaxError: invalid syntax (broken.py, line 2)",
    "\n\n1 / 0": "(line 3): ZeroDivisionError: division by zero",
    "raise SystemExit(3)": "(line 1): SystemExit: 3",
    "class Own(BaseException): ...\nraise Own('mine')": "(line 2): Own: mine",
    "class Mute(Exception):\n    __str__ = None\nraise Mute": "(line 3): Mute: it cannot say why",
    "import asyncio\nraise asyncio.CancelledError": "(line 2): CancelledError: ",
    "import clew\nraise clew.Stop('here')": "(line 2): Stop: here",
    "def f(): f()\nf()": "(line 1): RecursionError: maximum recursion depth exceeded",
    "x = '\0'": "null byte",
    "import clew\n@clew.tool(effect='sometimes')\ndef pay(): ...": "UsageError: tool 'pay' cannot be declared",
}
STEPS = {
    "import nothing_of_that_name": f"Install it for {sys.executable}",
    "import clew\n@clew.tool(effect='sometimes')\ndef pay(): ...": "Correct the declaration",
}


@pytest.mark.parametrize("text", BROKEN, ids=lambda text: text.splitlines()[-1])
@pytest.mark.parametrize("words", [("run", "{file}:x", "1042"), ("resume", "k3f", "--agent", "{file}:x")], ids=" ".join)
def test_an_agent_that_does_not_import_is_told_with_file_line_and_fault(
    place: Place, words: tuple[str, ...], text: str
) -> None:
    """Whatever the user's file raises is the file's fault: told in one line, and no run begins or goes on."""
    place.waiting()
    (place.folder / "broken.py").write_text(text, "utf-8")

    met = place.refused(*[word.format(file="broken.py") for word in words])

    assert (2, "agent_not_loadable", []) == met.short
    assert f"{str(place.folder / 'broken.py')!r} cannot be loaded" in met.message
    assert BROKEN[text] in met.message
    assert met.next.startswith(STEPS.get(text, "Mend the file"))


@pytest.mark.parametrize(
    ("target", "code", "message", "step"),
    [
        ("nowhere.py:x", "agent_not_found", "nowhere.py", "Name a Python file."),
        ("agent.py", "invalid_agent_path", "'agent.py' names no agent", "Write FILE:AGENT"),
        ("agent.py:", "invalid_agent_path", "'agent.py:' names no agent", "Write FILE:AGENT"),
        ("agent.py:nobody", "agent_not_found", "'agent.py' has no agent 'nobody'", "It has: settle"),
        ("agent.py:os", "agent_not_found", "'agent.py' has no agent 'os'", "It has: settle"),
        (".:x", "agent_not_found", "there is no file", "Name a Python file."),
        ("notes.txt:x", "agent_not_found", "notes.txt' is no Python file", "Name a file that ends in .py."),
    ],
)
def test_an_agent_path_that_leads_nowhere_is_told(
    place: Place, target: str, code: str, message: str, step: str
) -> None:
    """And what there is instead."""
    (place.folder / "notes.txt").touch()

    met = place.refused("run", target, "1042")

    assert (2, code, [], False) == (*met.short, place.home.exists())
    assert message in met.message
    assert met.next.startswith(step)


def test_an_agent_path_is_refused_by_a_real_process_too(place: Place) -> None:
    """The same words, whoever asks."""
    (place.folder / "broken.py").write_text("class Own(BaseException): ...\nraise Own('mine')", "utf-8")

    met = place.process_refused("run", "broken.py:x", "1042")

    assert (2, "agent_not_loadable", [], False) == (*met.short, place.home.exists())


# Tools that were not declared.

UNDECLARED = """
import clew

@clew.tool(effect="external", probe=lambda call: clew.DidNotHappen(), in_doubt_s=0)
def pay(call: clew.Call, order: str, cents: int) -> dict: ...

@clew.agent
def bare(run, prompt):
    return run.call("pay", order=prompt)

@clew.agent(name="settle")
def settle(run, prompt):
    return run.call(pay, order=prompt, cents=4200)
"""


def test_a_tool_that_the_agent_does_not_declare_is_refused_by_name(place: Place) -> None:
    """Told with the code and what to write; of the refused call not one record is made."""
    (place.folder / "bare.py").write_text(UNDECLARED, "utf-8")

    done = place.type("run", "bare.py:bare", "1042", "--run-id", "bare")
    told = place.type("resume", "bare", "--json").json

    assert (22, "unknown_tool") == (done.code, told["error"]["code"])
    assert "agent 'bare' has no tool 'pay'" in done.err
    assert "Declare it with the agent: @clew.agent(tools=[…]). [unknown_tool]\n" in done.err
    assert "tool_call" not in place.journal("bare").read_text("utf-8")


def test_an_agent_without_tools_asks_no_probe_and_repeats_nothing(place: Place) -> None:
    """Its open effect waits for a person, and the plan says that a declared tool could be asked after."""
    place.waiting()
    (place.folder / "bare.py").write_text(UNDECLARED, "utf-8")

    planned = place.type("resume", "k3f", "--agent", "bare.py:settle", "--dry-run")
    before = fingerprint(place.home)
    resumed = place.type("resume", "k3f", "--agent", "bare.py:settle")

    assert (0, 21, []) == (planned.code, resumed.code, differences(before, fingerprint(place.home)))
    assert "the agent does not offer this tool" in planned.out
    assert "@clew.agent(tools=[…])" in planned.out
    assert "asks its probe or repeats it, where declared so" in resumed.err


# What is not JSON: the path of what is not.


@clew.tool(effect="external")
def book(call: clew.Call, items: list[Any], note: str = "") -> str:
    raise AssertionError("a call that was refused must not run")


class Odd:
    """No rule says how to keep it."""


def deep(levels: int) -> list[Any]:
    """A list in a list in a list …"""
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


WRONG: dict[str, list[Any]] = {
    "args.items[3].when": [0, 1, 2, {"when": Odd()}],
    "args.items[0]": [math.nan],
    "args.items[1]['a b']": [0, {"a b": -math.inf}],
    "args.items[2]": [0, 1, 10**4300],
    "args.items[0].keys": [{"keys": {7: "seven"}}],
    "args.items" + "[0]" * 199: deep(100_000),
}


def refused_argument(items: list[Any]) -> Any:
    """What an agent is told that asks for a call with these arguments."""

    def agent(run: clew.SyncRun, prompt: Any) -> Any:
        try:
            return run.call(book, items=items)
        except clew.UsageError as fault:
            return [fault.code, fault.facts["path"], str(fault), fault.next]

    return agent


@pytest.mark.parametrize("path", WRONG, ids=[path[:24] for path in WRONG])
def test_an_argument_that_is_not_json_is_named_by_its_path(tmp_path: Path, path: str) -> None:
    """Before anything ran, and without a record of the call: the agent can mend it and ask again."""
    home = clew.Home(tmp_path / ".clew")

    code, place, message, step = home.run_sync(refused_argument(WRONG[path]), run_id="r1").output

    assert ("value_not_json", path) == (code, place)
    assert message.startswith(f"the value at {path} cannot be kept as JSON: ")
    assert step == "Pass a plain JSON value there, a dataclass, or a text that says the same."
    assert "tool_call" not in (tmp_path / ".clew" / "runs" / "r1.jsonl").read_text("utf-8")


def test_the_example_of_the_contract_word_for_word(tmp_path: Path) -> None:
    """A zone whose offset has seconds is the one time that ISO 8601 cannot say; all other times may stand there."""
    zone = datetime.timezone(datetime.timedelta(seconds=30))
    asked = [0, 1, 2, {"when": datetime.time(12, tzinfo=zone)}]
    home = clew.Home(tmp_path / ".clew")

    found = home.run_sync(refused_argument(asked), run_id="r1").output

    assert ["value_not_json", "args.items[3].when"] == found[:2]


def test_an_argument_that_is_not_json_is_named_to_an_async_agent_too(tmp_path: Path) -> None:
    """Both doors have one rule."""

    async def agent(run: clew.Run, prompt: Any) -> Any:
        try:
            return await run.call(book, items=[Odd()])
        except clew.UsageError as fault:
            return fault.facts["path"]

    result = asyncio.run(clew.Home(tmp_path / ".clew").run(agent, run_id="r1"))

    assert "args.items[0]" == result.output


def test_an_agent_that_lets_it_pass_is_paused_with_the_path_in_the_reason(place: Place) -> None:
    """At three in the morning the path is on the screen, and the run goes on once it is mended."""
    text = (
        "import clew\n@clew.tool\ndef pay(items): ...\ndef settle(run, prompt): run.call(pay, items=[0, {'when': 1j}])"
    )
    (place.folder / "wrong.py").write_text(text, "utf-8")

    done = place.type("run", "wrong.py:settle", "--run-id", "r1")

    assert 22 == done.code
    assert "the value at args.items[1].when cannot be kept as JSON: complex" in done.err
    assert "[value_not_json]" in done.err


def test_an_input_that_is_not_json_starts_nothing(tmp_path: Path) -> None:
    """The path begins at what the caller gave."""
    home = clew.Home(tmp_path / ".clew")

    with pytest.raises(clew.UsageError) as caught:
        home.run_sync(refused_argument([]), {"orders": [1, Odd()]}, run_id="r1")

    assert ("value_not_json", "input.orders[1]", False) == (
        caught.value.code, caught.value.facts["path"], home.path.exists(),
    )  # fmt: skip


def test_a_settlement_that_is_not_json_settles_nothing(place: Place) -> None:
    """The result is what the agent will be told, so it must be kept as it is."""
    place.waiting()
    before = fingerprint(place.home)

    with pytest.raises(clew.UsageError) as caught:
        clew.Home(place.home).settle("k3f", clew.Happened({"transfer": Odd()}), by="ann", reason="bank")

    assert ("value_not_json", "result.transfer") == (caught.value.code, caught.value.facts["path"])
    assert [] == differences(before, fingerprint(place.home))


@pytest.mark.parametrize("text", ["{T-7}", "", "[1", "NaN", "{'a': 1}", "[" * 100_000, "1 2"])
def test_a_result_typed_by_a_person_is_json_or_nothing(place: Place, text: str) -> None:
    """A slip of the finger must not become what the agent is told."""
    place.waiting()

    met = place.refused("settle", "k3f", "happened", *WHO, f"--result={text}")

    assert (2, "result_not_json", []) == met.short
    assert met.message.startswith("--result is not JSON")
