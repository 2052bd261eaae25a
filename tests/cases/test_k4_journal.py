"""Kind K4 of the reports: a journal that is corrupt, torn, misread or overwritten. One row a group, its id in front."""

import json
import os
import signal
from pathlib import Path

import pytest

import clew
from clew.core.codec import strict_json
from clew.core.records import Record
from tests.cases.ward import ACTING, DOORS, LOOKING, SICK, Typed, Ward, case, codes_at, knock, untouched
from tests.cli.shell import Shell
from tests.disk.living import living

CORRUPT = {(12, "run_state_corrupt")}
FOREIGN_FILES = [
    "pi-v1-real-fused-line.jsonl", "pi-v1-real-two-compactions.jsonl", "pi-v3-real-resumed.jsonl",
    "pi-v3-upstream-writer.jsonl", "pi-v4a-upstream-writer.jsonl", "derived-claude-code-nul-padding.jsonl",
    "derived-v3-torn-tail-inside-multibyte.jsonl", "claude-code-real-orphan-tools-repeated-usage.jsonl",
    "codex-rollout-0.14x-sampled.jsonl", "langgraph-sqlite-pending-interrupt.sqlite",
]  # fmt: skip
BROKEN = [
    "parent-cycle", "self-parent", "duplicate-entry-id", "missing-parent", "forward-parent", "no-header", "two-headers",
    "header-of-another-id", "unknown-entry-type", "fractional-and-string-version", "future-version",
    "duplicate-json-keys", "non-json-numbers", "big-integer", "compaction-first-kept-not-on-branch",
    "compaction-between-call-and-result", "orphan-tool-call-then-user", "duplicate-tool-result",
    "unterminated-but-complete-last-line", "terminated-garbage-last-line", "only-a-torn-header", "empty-file",
    "lone-surrogate-escape", "line-separators-inside-string",
]  # fmt: skip


@pytest.fixture
def ward(shell: Shell) -> Ward:
    return Ward(shell.folder)


def place_told(typed: Typed, door: str = "verify") -> tuple[int, str, int, int]:
    """Exit code, error code, line and byte."""
    done = knock(typed, door)
    return done.code, done.error["code"], done.error["facts"]["line"], done.error["facts"]["byte"]


def fused(ward: Ward, line: int) -> tuple[bytes, int]:
    """The journal with this line and the next in one, and the byte where that one begins."""
    lines = ward.lines
    lines[line - 1] = lines[line - 1][:-1]
    return b"".join(lines), sum(map(len, lines[: line - 1]))


# C28: history silently stops at the first bad line.


@pytest.mark.parametrize("head", [True, False], ids=["with head", "without head"])
@pytest.mark.parametrize("line", [2, 5, -2])
def test_two_records_in_one_line_are_refused_at_every_door_with_their_place(
    ward: Ward, typed: Typed, line: int, head: bool
) -> None:
    """C28: a history that stops there without a word would be taken for the whole."""
    at = len(ward.lines) + 1 + line if line < 0 else line
    data, byte = fused(ward, at)
    ward.spoil(data)
    if not head:
        ward.forget_head()

    assert (12, "run_state_corrupt", at, byte) == place_told(typed)
    assert CORRUPT == codes_at(typed)
    assert data == ward.journal.read_bytes()


def test_a_log_ends_with_the_error_and_not_as_if_that_were_all(ward: Ward, typed: Typed) -> None:
    """C28: who reads on the screen or in a pipe must see that more was there."""
    data, byte = fused(ward, 5)
    ward.spoil(data)

    done = knock(typed, "show --log")

    assert [1, 2, 3, 4] == [json.loads(line)["sequence"] for line in done.out.splitlines()]
    assert (12, byte) == (done.code, done.error["facts"]["byte"])


# C29: NUL bytes after a power loss.


@pytest.mark.parametrize("head", [True, False], ids=["with head", "without head"])
def test_a_line_of_nul_bytes_in_the_middle_is_damage(ward: Ward, typed: Typed, head: bool) -> None:
    """C29: what stands behind it was acknowledged, so the hole is not the end."""
    nul = next(line for line in case("derived-claude-code-nul-padding.jsonl").split(b"\n") if line[:1] == b"\0")
    before = ward.lines[:6]
    ward.spoil(b"".join([*before, nul + b"\n", *ward.lines[6:]]))
    if not head:
        ward.forget_head()

    assert (12, "run_state_corrupt", 7, sum(map(len, before))) == place_told(typed)
    assert CORRUPT == codes_at(typed)


@pytest.mark.parametrize("size", [1, 312, 4096])
def test_nul_bytes_behind_the_last_record_are_a_torn_end_that_is_kept_when_it_is_cut(
    ward: Ward, typed: Typed, size: int
) -> None:
    """C29: the file had grown, its last append never came; nobody was told otherwise, so the run goes on."""
    ward.spoil(ward.sound + bytes(size))
    seen = untouched(ward.home.path, lambda: codes_at(typed, LOOKING))
    told = knock(typed, "verify").json["tail"]
    result = ward.resume()
    cut = next(record for record in ward.home.reader.records(SICK) if "tailRepaired" in record.payload)
    kept = ward.journal.with_suffix("") / cut.payload["tailRepaired"]["keptAs"]

    assert (True, "torn", len(ward.sound), size) == (seen, told["verdict"], told["atByte"], told["bytes"])
    assert ("completed", "T-1, T-2", bytes(size)) == (result.operation.state, result.output, kept.read_bytes())


# C30: a bad first line hides the whole.


@pytest.mark.parametrize("rest", [False, True], ids=["alone", "with the rest behind it"])
def test_a_run_whose_first_line_is_cut_in_half_is_listed_with_the_reason(ward: Ward, typed: Typed, rest: bool) -> None:
    """C30: a run that is left out of the list is a run that nobody looks for."""
    ward.run_well()
    half = ward.lines[0][: len(ward.lines[0]) // 2]
    ward.spoil(b"\n".join([half, *ward.sound.split(b"\n")[1:]]) if rest else half)
    ward.forget_head()

    rows = {row["runId"]: row for row in typed("ls", "--json").json}

    assert ("completed", "unreadable") == (rows["well-1"]["shown"], rows[SICK]["shown"])
    assert "damaged at line 1, byte 0" in rows[SICK]["message"]
    assert CORRUPT == codes_at(typed)


def test_a_list_with_an_unreadable_run_is_a_list_and_a_verification_of_all_is_not_well(
    ward: Ward, shell: Shell
) -> None:
    """C30: as a real command: `ls` answers, `verify` fails, both name it."""
    ward.run_well()
    ward.spoil(ward.sound[:100])
    ward.forget_head()

    listed, verified = shell("ls"), shell("verify")

    assert (0, 12) == (listed.code, verified.code)
    assert "UNREADABLE  sick-1" in listed.out
    assert ["CORRUPT", "next:", "OK"] == [line.split()[0] for line in verified.out.splitlines()]


@pytest.mark.parametrize("name", FOREIGN_FILES)
def test_a_file_of_another_agent_is_listed_as_unreadable_and_left_alone(ward: Ward, typed: Typed, name: str) -> None:
    """C30: somebody puts a session or a database among the journals; that is no run, and no reason to touch it."""
    data = case(name)
    ward.implant("other-1", data)
    doors = set[tuple[int, str]]()
    seen = untouched(ward.home.path, lambda: doors.update(codes_at(typed, run_id="other-1")))

    row = next(row for row in typed("ls", "--json").json if row["runId"] == "other-1")

    assert (True, CORRUPT, "unreadable", "run_state_corrupt") == (seen, doors, row["shown"], row["reason"])
    assert "line 1, byte 0" in row["message"]


# C31: other line separators, and a long line.


def odd_text() -> str:
    """A real string with U+2028 and U+2029 in it, and the other ends of lines that `splitlines` knows."""
    line = next(line for line in case("pi-v3-upstream-writer.jsonl").split(b"\n") if "\u2028".encode() in line)
    return line.decode() + "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\r\r\n"


def repeat(text: str) -> str:
    return text


ECHO = clew.tool(effect="external")(repeat)
TALKING = clew.agent(tools=[ECHO], name="talk")(lambda run, prompt: run.call(ECHO, text=prompt))


def test_only_a_line_feed_ends_a_record(ward: Ward, typed: Typed) -> None:
    """C31: a text with another line separator in it broke readers that split by all of them."""
    text = odd_text()
    result = ward.home.run_sync(TALKING, text, run_id="odd-1", signals=False)
    data = ward.path("odd-1").read_bytes()
    log = typed("show", "odd-1", "--log", "--json").out

    records: list[Record] = list(ward.home.reader.records("odd-1"))

    assert (text, text) == (result.output, records[0].payload["initialPrompt"])
    assert data.count(b"\n") == len(records) == log.count("\n") < len(data.decode().splitlines())
    assert [strict_json(line)["sequence"] for line in data.split(b"\n")[:-1]] == [each.sequence for each in records]


def test_a_line_of_twenty_megabytes_is_read(ward: Ward, typed: Typed) -> None:
    """C31: one large input must not make its run unreadable."""
    size = 20_000_000
    agent = clew.agent(lambda run, prompt: len(prompt), name="long")
    ward.home.run_sync(agent, "x" * size, run_id="long-1", signals=False)

    verified, found = knock(typed, "verify", "long-1"), ward.home.result("long-1")

    assert (0, size) == (verified.code, found.output)
    assert size == len(next(iter(ward.home.reader.records("long-1"))).payload["initialPrompt"])


# C33: what may be tolerated at the end.


@pytest.mark.parametrize("garbage", [b"garbage\n", b'{"version":1}\n', b"{}\n", b"\n", b"garbage", b'{"type":"x"'])
def test_garbage_as_the_last_line_is_damage(ward: Ward, typed: Typed, garbage: bytes) -> None:
    """C33: nobody but this journal's writer appends, and it never wrote that: somebody else did."""
    ward.spoil(ward.sound + garbage)

    assert (12, "run_state_corrupt", len(ward.lines) + 1, len(ward.sound)) == place_told(typed)
    assert CORRUPT == codes_at(typed)


@pytest.mark.parametrize("kept", [1, 40, 200])
def test_the_beginning_of_the_next_record_is_an_append_that_never_ended(ward: Ward, typed: Typed, kept: int) -> None:
    """C33: this a death in the middle of a write leaves; it is reported, kept and cut, and the run goes on."""
    number = len(ward.lines) + 1
    opening = ward.lines[-1].replace(b'"sequence":%d,' % (number - 1), b'"sequence":%d,' % number)[:kept]
    ward.spoil(ward.sound + opening)
    told = knock(typed, "verify").json["tail"]

    result = ward.resume()

    assert ("torn", kept, "completed") == (told["verdict"], told["bytes"], result.operation.state)
    assert [opening] == [path.read_bytes() for path in ward.journal.with_suffix("").glob("torn-*")]


# C34: opening a file with a bad header replaces it.


@pytest.mark.parametrize("name", BROKEN)
def test_no_door_writes_to_a_file_that_it_cannot_read(ward: Ward, typed: Typed, name: str) -> None:
    """C34: what could still be mended by hand was replaced by an empty file."""
    cases = {each["name"]: each["text"] for each in json.loads(case("derived-v3-broken-sessions.json"))["cases"]}
    ward.implant("other-1", cases[name].encode("utf-8", "surrogatepass"))
    found = set[tuple[int, str]]()

    same = untouched(ward.home.path, lambda: found.update(codes_at(typed, run_id="other-1")))

    assert (True, {(10, "unknown_run")} if name == "empty-file" else CORRUPT) == (same, found)


def test_the_list_of_sick_sessions_is_complete() -> None:
    """C34: a name that is not in the list above would not be tried."""
    assert BROKEN == [each["name"] for each in json.loads(case("derived-v3-broken-sessions.json"))["cases"]]


@pytest.mark.parametrize("door", ["ls", *DOORS])
def test_a_sick_journal_keeps_every_byte_and_time_of_its_home(ward: Ward, typed: Typed, door: str) -> None:
    """C34, C28: each door by itself, the acting ones too."""
    ward.spoil(fused(ward, 4)[0])

    same = untouched(ward.home.path, lambda: typed("ls") if door == "ls" else knock(typed, door))

    assert same


# C35: an empty file.


def test_an_empty_file_is_no_run_and_stays_empty(ward: Ward, typed: Typed) -> None:
    """C35: a run is born with its first records, so there never was one; 10, as for any name that is not there."""
    ward.implant("empty-1", b"")
    found = set[tuple[int, str]]()

    same = untouched(ward.home.path, lambda: found.update(codes_at(typed, run_id="empty-1")))

    assert (True, {(10, "unknown_run")}) == (same, found)


def test_an_empty_file_is_listed_with_what_can_be_done(ward: Ward, shell: Shell) -> None:
    """C35: as a real command; it hides nothing, and says that the file is empty instead of sending in a circle."""
    ward.implant("empty-1", b"")

    listed, shown = shell("ls"), shell("show", "empty-1")

    assert (0, 10) == (listed.code, shown.code)
    assert "UNREADABLE  empty-1" in listed.out
    assert "is empty [unknown_run]" in shown.err
    assert "next: Bring the file back from a copy, or remove it" in shown.err


def test_no_run_begins_over_an_empty_file(ward: Ward, typed: Typed) -> None:
    """C35: an id is never replaced, not even where nothing is left of it."""
    ward.implant("empty-1", b"")

    done = typed("run", "agent.py:settle", "7", "--run-id", "empty-1", "--json")

    assert (4, "run_id_conflict", b"") == (done.code, done.error["code"], ward.path("empty-1").read_bytes())


def test_an_emptied_journal_is_a_loss_and_not_a_run_that_never_was(ward: Ward, typed: Typed) -> None:
    """C35: its head says how much was acknowledged, so it is damage, and no new run may take its place."""
    ward.spoil(b"")

    assert CORRUPT == codes_at(typed)
    assert b"" == ward.journal.read_bytes()


# C36: a number is missing or repeated.


def renumbered(ward: Ward, numbers: list[int]) -> bytes:
    """A journal without chain, as other programs write it, with these numbers and nothing else wrong."""
    found = (json.loads(line) for line in ward.lines)
    plain = [{name: value for name, value in each.items() if name not in ("chain", "append")} for each in found]
    chosen = [{**plain[min(number, 4) - 1], "sequence": number} for number in numbers]
    return b"".join(json.dumps(each, separators=(",", ":")).encode() + b"\n" for each in chosen)


@pytest.mark.parametrize(("numbers", "line"), [([1, 2, 4], 3), ([1, 2, 2], 3), ([2, 3], 1), ([1, 3, 2], 2)], ids=str)
def test_a_missing_or_repeated_number_is_named_and_nothing_is_renumbered(
    ward: Ward, typed: Typed, numbers: list[int], line: int
) -> None:
    """C36: a reader that counts for itself tells another story than the file."""
    ward.spoil(renumbered(ward, numbers))
    ward.forget_head()

    done = knock(typed, "verify")

    assert (12, line) == (done.code, done.error["facts"]["line"])
    assert f"it is not record {line} of run 'sick-1'" in done.error["facts"]["why"]
    assert CORRUPT == codes_at(typed)


@pytest.mark.parametrize("head", [True, False], ids=["with head", "without head"])
@pytest.mark.parametrize("change", ["dropped", "repeated", "swapped"])
def test_a_record_of_ours_that_is_gone_or_doubled_is_damage_too(
    ward: Ward, typed: Typed, change: str, head: bool
) -> None:
    """C36: the same in a chained journal, where nobody could have left it out by mistake."""
    first, second, third, fourth, *rest = ward.lines
    begins = {"dropped": [second, fourth], "repeated": [second, second], "swapped": [third, second]}
    ward.spoil(b"".join([first, *begins[change], *rest]))
    if not head:
        ward.forget_head()

    line = 2 if change == "swapped" else 3
    assert (12, "run_state_corrupt", line) == place_told(typed)[:3]
    assert CORRUPT == codes_at(typed)


# C37: history is missing after a crash.

WRITER = """
import sys
import clew
from pathlib import Path
from clew.stores.jsonl import FileRunStore

class Told(FileRunStore):
    def create(self, *given, **named):
        return tell(super().create(*given, **named), given[1])

def tell(writer, batch):
    append = writer.append
    def appended(batch, **named):
        at = append(batch, **named)
        print(batch.last, batch.chain, flush=True)
        return at
    writer.append = appended
    print(batch.last, batch.chain, flush=True)
    return writer

@clew.tool(effect="none", replay="safe")
def look(number: int):
    return number

@clew.agent(tools=[look])
def busy(run, prompt):
    number = 0
    while True:
        run.call(look, number=number)
        number += 1

clew.Home(sys.argv[1], store=Told(Path(sys.argv[1]))).run_sync(busy, run_id="busy-1")
"""


def killed_after(folder: Path, appends: int) -> tuple[list[tuple[int, str]], dict[int, str]]:
    """Kill a process that appends as fast as it can; what it was told is durable, and what the file has."""
    with living(WRITER, folder / ".clew") as writer:
        told = [writer.says() for _ in range(appends)]
        os.kill(writer.pid, signal.SIGKILL)
        writer.ends()
        assert writer.process.stdout is not None
        # What stands behind the last line feed it did not finish saying.
        told += writer.process.stdout.read().split("\n")[:-1]
    acknowledged = [(int(line.split()[0]), line.split()[1]) for line in told]
    records = clew.Home(folder / ".clew").reader.records("busy-1")
    return acknowledged, {record.sequence: str(record.chain) for record in records}


def test_every_acknowledged_record_is_there_after_a_kill(tmp_path: Path) -> None:
    """C37: acknowledged means kept, whatever the process was doing when it died."""
    acknowledged, kept = killed_after(tmp_path, 50)

    assert [] == [each for each in acknowledged if kept.get(each[0]) != each[1]]
    assert acknowledged[-1][0] >= 100


@pytest.mark.journeys
@pytest.mark.parametrize("appends", range(1, 41))
def test_it_is_there_whenever_the_kill_comes(tmp_path: Path, appends: int) -> None:
    """C37: the same at forty other moments."""
    acknowledged, kept = killed_after(tmp_path, appends)

    assert [] == [each for each in acknowledged if kept.get(each[0]) != each[1]]


def test_a_sound_journal_passes_all_these_doors(ward: Ward, typed: Typed) -> None:
    """C28 to C36 could be passed by refusing everything."""
    looked = codes_at(typed, LOOKING)
    acted = codes_at(typed, [door for door in ACTING if door not in ("resume", "abort")])

    assert {(0, "")} == looked
    assert {(0, ""), (4, "nothing_to_settle"), (4, "run_not_living"), (4, "nothing_to_unlock")} == acted
    assert "completed" == ward.resume().operation.state
