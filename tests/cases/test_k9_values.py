"""Kind K9 of the reports: values that do not survive storage, live and replayed. One row a group, its id in front."""

import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import UUID

import pytest

import clew
from clew.core.chain import link
from clew.core.codec import LineReader
from tests.cases.ward import LOOKING, SICK, Typed, Ward, codes_at, knock
from tests.cli.shell import Shell

RUN = "value-1"


@pytest.fixture
def ward(shell: Shell) -> Ward:
    return Ward(shell.folder)


@pytest.fixture
def home(shell: Shell) -> clew.Home:
    return clew.Home(shell.folder / ".clew", takeover="operator")


def path_of(home: clew.Home) -> Path:
    """The journal of the run."""
    return Path(home.reader.store.locate(RUN))


class Told:
    """A run whose tool is asked something and answers something, which stumbles, and replays when it is resumed."""

    def __init__(self, home: clew.Home, answer: Any, returns: Any = Any) -> None:
        self.home = home
        self.path = path_of(home)
        self.heard: list[Any] = []
        self.asked: list[Any] = []

        def give(asked: Any) -> Any:
            self.asked.append(asked)
            return answer

        give.__annotations__ = {"asked": Any, "return": returns}
        self.tool = clew.tool(effect="external")(give)

    def run(self, asked: Any, prompt: Any = None) -> clew.RunResult:
        """Live, then replayed from what is on the disk."""
        self.home.run_sync(self._agent(asked, stumbles=True), prompt, run_id=RUN, signals=False)
        return self.home.resume_sync(RUN, self._agent(asked, stumbles=False), signals=False)

    def _agent(self, asked: Any, *, stumbles: bool) -> clew.Agent:
        def agent(run: clew.SyncRun, prompt: Any) -> Any:
            self.heard.append(run.call(self.tool, asked=asked))
            if stumbles:
                raise LookupError("a bug")
            return prompt

        return clew.Agent(agent, name="told", tools=[self.tool])

    def event(self, kind: str) -> dict[str, Any]:
        """The first event of a kind, as the file has it."""
        records = (record.payload.get("event") for record in self.home.reader.records(RUN) if record.kind == "event")
        return next(event for event in records if isinstance(event, dict) and event["type"] == kind)


# C90: a lone surrogate.

SURROGATES = {
    "alone": "\ud99c",
    "an emoji cut in half": "done \N{GRINNING FACE}".encode("utf-16-le")[:-2].decode("utf-16-le", "surrogatepass"),
    "deep inside": {"a": [{"\udcff": "x\ud99cy"}]},
    "beside the journal": "\ud99c" * 4000,
}


@pytest.mark.parametrize("value", SURROGATES.values(), ids=SURROGATES)
def test_a_lone_surrogate_is_kept_and_read_back_equal(home: clew.Home, value: Any) -> None:
    """C90: a model truncates an emoji, and from then on nothing of that conversation could be stored."""
    told = Told(home, value)

    result = told.run(value, prompt=value)

    assert ("completed", value, [value, value], [value]) == (
        result.operation.state,
        result.output,
        told.heard,
        told.asked,
    )
    assert value == told.event("tool_call")["args"]["asked"]
    assert b"\\ud" in told.path.read_bytes()
    assert told.path.read_bytes().decode("utf-8", "strict").count("\n") == home.verify(RUN)["records"]


@pytest.mark.parametrize("value", SURROGATES.values(), ids=SURROGATES)
def test_a_run_with_a_lone_surrogate_is_listed_and_shown(home: clew.Home, typed: Typed, value: Any) -> None:
    """C90: what is stored must also be told, in words and as JSON; the list holds the input, too."""
    Told(home, value).run(value, prompt=value)

    looked = codes_at(typed, LOOKING, RUN)
    words = {typed(door.split(maxsplit=1)[0], RUN, *LOOKING[door]).code for door in LOOKING}
    rows, listed = typed("ls", "--json"), typed("ls")

    assert ({(0, "")}, {0}, 0, 0) == (looked, words, rows.code, listed.code)
    assert next(row for row in rows.json if row["runId"] == RUN)["input"]
    assert next(line for line in listed.out.splitlines() if RUN in line).startswith("COMPLETED")


def test_an_argument_of_the_command_line_that_is_no_text_is_an_input_like_any_other(shell: Shell) -> None:
    """C90: a file name in another encoding, typed in a terminal, reaches Python as lone surrogates."""
    (shell.folder / "echo.py").write_text("def echo(run, prompt):\n    return prompt\n", "utf-8")
    done = shell("run", "echo.py:echo", "caf\udce9", "--run-id", RUN, "--json")
    listed = shell("ls", "--json")

    assert (0, "completed", "caf\udce9") == (done.code, done.json["state"], done.json["output"])
    assert (0, "caf\udce9") == (listed.code, listed.json[0]["input"])


def test_the_halves_of_an_emoji_that_meet_are_the_emoji_again(home: clew.Home) -> None:
    """C90: pieces of a stream are put together; read back as JSON a pair is one character, so live it is as well."""
    told = Told(home, "\ud83d" + "\ude00")

    told.run("x")

    assert ["\N{GRINNING FACE}"] * 2 == told.heard


def test_a_lone_surrogate_in_an_error_is_no_reason_to_lose_the_run(home: clew.Home, typed: Typed) -> None:
    """C90: what a tool or an agent raises quotes what it was given."""

    def agent(run: clew.SyncRun, prompt: Any) -> None:
        raise ValueError("cannot read \ud99c")

    home.run_sync(clew.Agent(agent, name="raising"), run_id=RUN, signals=False)
    done = knock(typed, "show", RUN)

    assert (0, "agent_error") == (done.code, done.json["outcome"]["finishReason"])
    assert "cannot read \ud99c" in done.json["outcome"]["error"]["message"]


def test_a_person_may_name_a_result_with_a_lone_surrogate(shell: Shell, typed: Typed) -> None:
    """C90: what the other side really returned is what the agent is told."""
    shell.raise_flag("boom")
    typed("run", "agent.py:settle", "7", "--run-id", RUN)
    who = ("--by", "ann", "--reason", "looked")
    settled = typed("settle", RUN, "happened", "--result", '{"transfer":"T-\\ud99c"}', *who)

    done = typed("resume", RUN, "--json")

    assert (0, 0, "T-\ud99c", ["7"]) == (settled.code, done.code, done.json["output"], shell.payments)


# C91: dates, bytes and their like.


class Colour(Enum):
    RED = "red"


KEPT: dict[str, tuple[Any, Any, Any]] = {
    "datetime": (datetime(2026, 11, 29, 14, 0, 1, 5, tzinfo=UTC), datetime, "2026-11-29T14:00:01.000005Z"),
    "date": (date(2026, 11, 29), date, "2026-11-29"),
    "time": (time(14, 0), time, "14:00:00"),
    "timedelta": (timedelta(seconds=90), timedelta, "PT90S"),
    "bytes": (b"\x00\xff", bytes, "AP8="),
    "set": ({"b", "a"}, set[str], ["a", "b"]),
    "frozenset": (frozenset({2, 1}), frozenset[int], [1, 2]),
    "tuple": ((1, "a"), tuple[int, str], [1, "a"]),
    "Decimal": (Decimal("1.10"), Decimal, "1.10"),
    "Path": (PurePosixPath("a/b"), PurePosixPath, "a/b"),
    "Enum": (Colour.RED, Colour, "red"),
    "UUID": (UUID(int=7), UUID, "00000000-0000-0000-0000-000000000007"),
    "a list of them": ([datetime(2026, 11, 29, tzinfo=UTC)], list[datetime], ["2026-11-29T00:00:00Z"]),
}


@pytest.mark.parametrize(("value", "returns", "stored"), KEPT.values(), ids=KEPT)
def test_a_value_with_a_rule_comes_back_as_what_it_was(home: clew.Home, value: Any, returns: Any, stored: Any) -> None:
    """C91: stored by a documented rule, restored by the return annotation, the same live and replayed."""
    told = Told(home, value, returns)

    result = told.run(value)

    assert ("completed", [value, value], [value]) == (result.operation.state, told.heard, told.asked)
    assert [type(value)] * 3 == [type(each) for each in (*told.heard, *told.asked)]
    assert (stored, stored) == (told.event("tool_call")["args"]["asked"], json.loads(told.event("step_output")["text"]))


@pytest.mark.parametrize(("value", "returns", "stored"), KEPT.values(), ids=KEPT)
def test_without_an_annotation_both_legs_hear_what_was_stored(
    home: clew.Home, value: Any, returns: Any, stored: Any
) -> None:
    """C91: an agent that hears a date live and a text after a crash takes another way."""
    told = Told(home, value)

    told.run("x")

    assert [stored, stored] == told.heard


class Handle:
    """What cannot be stored."""


UNKEPT: dict[str, Callable[[], Any]] = {
    "an object": Handle,
    "an object in a set": lambda: {Handle()},
    "deep": lambda: {"rows": [{"of": Handle()}]},
    "NaN": lambda: {"score": math.nan},
    "a function": lambda: len,
    "keys that are no text": lambda: {1: 2},
}


@pytest.mark.parametrize("made", UNKEPT.values(), ids=UNKEPT)
def test_a_result_without_a_rule_is_kept_as_its_text_for_the_effect_has_happened(
    home: clew.Home, made: Callable[[], Any]
) -> None:
    """C91: an error behind the effect would have it done again; so it is committed, and both legs hear the same."""
    told = Told(home, made())

    result = told.run("x")

    assert ("completed", 1, []) == (result.operation.state, len(told.asked), result.waiting)
    assert told.heard[0] == told.heard[1]
    assert '"$clew":"repr"' in told.event("step_output")["text"]


# C92: where in the arguments it is, before anything ran.

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "an object": (Handle, "args.asked.items[3].when"),
    "in a set in a set": (lambda: {frozenset({Handle()})}, "args.asked.items[3].when[0][0]"),
    "NaN": (lambda: math.nan, "args.asked.items[3].when"),
    "Infinity": (lambda: -math.inf, "args.asked.items[3].when"),
    "keys that are no text": (lambda: {1: 2}, "args.asked.items[3].when"),
    "under a key that is no name": (lambda: {"a b": Handle()}, "args.asked.items[3].when['a b']"),
    "more than 4300 digits": (lambda: 10**4300, "args.asked.items[3].when"),
}


@pytest.mark.parametrize(("made", "path"), REFUSED.values(), ids=REFUSED)
def test_an_argument_without_a_rule_is_refused_with_its_path_before_anything_ran(
    home: clew.Home, made: Callable[[], Any], path: str
) -> None:
    """C92: the type alone names no place, and behind the step it is too late."""
    told = Told(home, "unheard")
    paused = told.home.run_sync(
        told._agent({"items": [1, 2, 3, {"when": made()}]}, stumbles=False), run_id=RUN, signals=False
    )

    fault = paused.fault
    assert isinstance(fault, clew.UsageError)
    assert ("value_not_json", path, []) == (fault.code, fault.facts["path"], told.asked)
    assert path in fault.message
    assert ("paused", "agent_error") == (paused.operation.state, paused.reason)
    assert [] == [record for record in told.home.reader.records(RUN) if "tool_call" in str(record.payload)]


def test_an_input_without_a_rule_begins_no_run(home: clew.Home) -> None:
    """C92: the same for what a run is asked."""
    with pytest.raises(clew.UsageError) as caught:
        home.run_sync(lambda_agent(), {"items": [{"when": Handle()}]}, run_id=RUN, signals=False)

    assert ("value_not_json", True) == (caught.value.code, caught.value.facts["path"].endswith(".items[0].when"))
    assert not path_of(home).exists()


def lambda_agent() -> clew.Agent:
    return clew.Agent(lambda run, prompt: prompt, name="echo")


# C94: large integers.

LARGE = [2512292042121000001, 2**53 + 1, 2**63, 2**64, -(10**40), 10**40, 10**4299]


def test_integers_of_any_size_are_exact(home: clew.Home, typed: Typed) -> None:
    """C94: an order number of nineteen digits became another order's."""
    told = Told(home, LARGE)

    result = told.run(LARGE, prompt=LARGE)
    shown = knock(typed, "show", RUN).json

    assert (LARGE, [LARGE, LARGE], [LARGE]) == (result.output, told.heard, told.asked)
    assert LARGE == told.event("tool_call")["args"]["asked"]
    assert LARGE == next(each["event"]["output"] for each in shown["trace"] if each["event"]["type"] == "agent_end")


def test_they_are_exact_beside_the_journal_as_well(home: clew.Home) -> None:
    """C94: a long answer is a blob."""
    numbers = [10**40 + number for number in range(1000)]
    told = Told(home, numbers)

    told.run("x")

    assert ([numbers, numbers], True) == (told.heard, "blob" in told.event("step_output"))


def test_a_person_names_a_large_result_exactly(shell: Shell, typed: Typed) -> None:
    """C94: `--result` is read as exactly as everything else."""
    shell.raise_flag("boom")
    typed("run", "agent.py:settle", "7", "--run-id", RUN)
    result = '{"transfer":"2512292042121000001","cents":10000000000000000000000000000000000000001}'
    typed("settle", RUN, "happened", "--result", result, "--by", "ann", "--reason", "looked")

    log = typed("show", RUN, "--log", "--json").out

    assert '\\"cents\\":10000000000000000000000000000000000000001}' in log


# C95 and C96: NaN, and two equal keys.


def with_line(ward: Ward, payload: str, *, chained: bool) -> tuple[bytes, int]:
    """The journal with one more record, numbered and chained as it should be; and its line."""
    number = len(ward.lines) + 1
    last = json.loads(ward.lines[-1])
    body = (
        f'{{"version":1,"runId":"{SICK}","sequence":{number},"eventId":"n-1","timestamp":"{last["timestamp"]}",{payload}'
    ).encode()
    if chained:
        end = b',"append":%d}' % number
        chain = link(last["chain"], body, end)
        return ward.sound + body + b',"chain":"%b"%b\n' % (chain.encode(), end), number
    start = {"version": 1, "runId": SICK, "sequence": 1, "timestamp": last["timestamp"], "kind": "start", "payload": {}}
    return json.dumps(start).encode() + b"\n" + body.replace(b'"sequence":%d' % number, b'"sequence":2') + b"}\n", 2


SPOILED = {
    "NaN": '"kind":"event","payload":{"event":{"type":"turn_end","costUsd":NaN}}',
    "Infinity": '"kind":"event","payload":{"event":{"type":"turn_end","costUsd":-Infinity}}',
    "too large for a float": '"kind":"event","payload":{"event":{"type":"turn_end","costUsd":1e400}}',
    "two kinds": '"kind":"finish","kind":"event","payload":{}',
    "two payloads": '"kind":"event","payload":{},"payload":{"event":{"type":"x"}}',
    "two keys inside": '"kind":"event","payload":{"event":{"type":"tool_call","args":{"to":"a","to":"b"}}}',
}


@pytest.mark.parametrize("chained", [True, False], ids=["ours", "another program's"])
@pytest.mark.parametrize("payload", SPOILED.values(), ids=SPOILED)
def test_what_two_readers_could_read_differently_is_damage(
    ward: Ward, typed: Typed, payload: str, chained: bool
) -> None:
    """C95, C96: a check that saw one value and an effect that saw another; a NaN that came back as null."""
    data, line = with_line(ward, payload, chained=chained)
    ward.spoil(data)
    ward.forget_head()

    done = knock(typed, "verify")

    assert (12, "run_state_corrupt", line) == (done.code, done.error["code"], done.error["facts"]["line"])
    assert "strict JSON" in done.error["facts"]["why"]
    assert {(12, "run_state_corrupt")} == codes_at(typed)


def test_the_line_that_is_spoiled_above_is_otherwise_a_good_one(ward: Ward) -> None:
    """C95, C96: else they would be refused for their number or their chain."""
    payload = '"kind":"event","payload":{"event":{"type":"turn_end"}}'
    data, _ = with_line(ward, payload, chained=False)
    ward.spoil(data)
    ward.forget_head()

    found = [record.kind for record in ward.home.reader.records(SICK)]
    data, number = with_line(ward, payload, chained=True)
    reader = LineReader(SICK)
    records = [reader.feed(line) for line in data.splitlines()]

    assert (["start", "event"], number) == (found, records[-1].sequence)


@pytest.mark.parametrize("text", ['{"transfer":"a","transfer":"b"}', '{"cents":NaN}', "1e400", "[1,", ""])
def test_a_result_that_a_person_names_is_as_strict(shell: Shell, typed: Typed, text: str) -> None:
    """C95, C96: which of the two transfers should the agent be told?"""
    done = typed("settle", RUN, "happened", "--result", text, "--by", "ann", "--reason", "looked", "--json")

    assert (2, "result_not_json") == (done.code, done.error["code"])


@pytest.mark.parametrize("text", ["NaN", "Infinity"])
def test_a_measured_number_that_json_does_not_have_is_refused_by_its_name(home: clew.Home, text: str) -> None:
    """C95: written as null it would be taken for not measured, and a limit would never be reached."""

    def ask(request: Any) -> clew.Turn:
        spent: Any = float(text)
        return clew.Turn("yes", usage=clew.Usage(tokens=7, cost_micro_usd=spent))

    def agent(run: clew.SyncRun, prompt: Any) -> Any:
        return run.turn(ask, "well?")

    result = home.run_sync(clew.Agent(agent, name="asking"), run_id=RUN, signals=False)

    assert ("paused", "agent_error") == (result.operation.state, result.reason)
    assert f"cost_micro_usd={float(text)!r}" in str(result.fault)
    metrics = result.snapshot["metrics"]
    assert (1, None, None) == (metrics["unmeasuredTurns"], metrics["tokens"], metrics["costUsd"])
