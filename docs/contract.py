"""Write `docs/contract.md`: each statement of the reference contract, and each case, with the tests that assert it.

python docs/contract.py

A test names a statement in its docstring as `#14` or `#14 to #16`, a case as `C28`; a case of the public store kit has
its numbers as a member. Of clew only that kit is imported.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from clew.testing.runstore import RUN_STORE_CASES
from clew.testing.sessionstore import SESSION_STORE_CASES

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "contract.md"
TESTS = ROOT / "tests"
CONFORMANCE = "tests/stores/test_conformance.py"
SESSION_CONFORMANCE = "tests/stores/test_session_conformance.py"

LAST = 250
WHOLE_LIFE = "the whole life of a run"
FILES_BACK = "files can be put back"
LATER_YET = "no theme yet"

# A statement is due now, or its group waits for the theme that is named here.
DUE = ""


@dataclass(frozen=True)
class Group:
    """A section of contract §3: its letter, its title, its first statement, and the theme that it waits for."""

    letter: str
    title: str
    first: int
    theme: str


GROUPS = (
    Group("A", "Operation state machine", 1, DUE),
    Group("B", "FileRunStore: append, read, repair", 17, DUE),
    Group("C", "Durability levels and the fact ledger", 44, DUE),
    Group("D", "Resume plan", 62, DUE),
    Group("E", "Safety gate and replay candidates", 81, DUE),
    Group("F", "Abort boundary", 95, DUE),
    Group("G", "Fingerprints and canonical JSON", 105, DUE),
    Group("H", "Effect receipts and bindings", 110, DUE),
    Group("I", "Tool-call lifecycle", 119, DUE),
    Group("J", "Capabilities", 135, DUE),
    Group("K", "Checkpoints", 144, DUE),
    Group("L", "Snapshot", 160, DUE),
    Group("M", "Outcome, metrics, evaluation, release", 166, DUE),
    Group("N", "Budget", 172, DUE),
    Group("O", "Session", 177, DUE),
    Group("P", "Migration v3 to v4", 190, DUE),
    Group("Q", "Input receipts", 199, DUE),
    Group("R", "Control inbox", 203, DUE),
    Group("S", "Loop", 211, DUE),
    Group("T", "Invariant checker", 222, DUE),
    Group("U", "Replay kit and projection", 234, LATER_YET),
    Group("V", "Trace redaction", 238, DUE),
    Group("W", "Lifecycle extensions", 241, DUE),
    Group("X", "Child runs, protocol, Python", 245, LATER_YET),
)

# What DESIGN puts in the place of a statement, word for word -> the statements.
REPLACED: dict[str, tuple[int, ...]] = {
    "readers never repair or lock; no reclaim by pid; one kernel lock for a leg, on the journal": (
        20, *range(32, 36), 37,
    ),
    "no whole-file republication: append and sync": (25, 36, 61),
    "one level: an acknowledged append is synced. A store declares its boundary (`process_memory`, `power_loss`); "
    "the poisoning and ledger rules #52 to #57 hold; #58, #59: a failed write or sync may leave the record, nobody was "
    "told so": (*range(44, 51), 58, 59, 60),
    "input fingerprints are whole SHA-256": (67, 109),
    "absence of a receipt means not started only in a leg of ours": (73, 81, 84),
    "hold for receipts; a rerun keeps the key, and attempts above 1 are `tool_attempt` events with a status": (
        91, 113, 114,
    ),
    "reviews settle it": (94,),
    "receipts and answers of calls started before `aborting` are kept until FAIL": (97, 99),
    "only raise, timeout, cancellation and death are unknown; what a tool returned is known": (112,),
    "the four kinds of record named in §4 may follow `finish`": (57,),
    "a terminated line that lost a sector is torn, by `reference/journal.md` §2": (22,),
    "a stricter capability means review, not a conflict; `not_started` goes under the step's key; our tool names": (
        93, 110, 135,
    ),
    "the walk of §5 is the lifecycle; `tool_lifecycle` facts are read in foreign journals, never written; #134 holds": (
        *range(119, 134),
    ),
    "no limit unless given": (176,),
    "input receipts are read in foreign journals; our input is `start.input`": tuple(range(199, 203)),
    "the configuration fingerprint covers what the user declared; agent code and limits do not block; a recorded "
    "waiver exists": (66, 106),
    "limits, agent errors and timeouts pause; spent amounts carry over; a policy's denial is an answer, a person's "
    "denial pauses": (80, 166, *range(171, 177)),
    "the checkpoint record is the manifest, content in blobs; several paths; post-state a second record": (
        *range(144, 160),
    ),
    "as the plan says": (165,),
    "no hard links: the public session path is the file": (180, 188, 197),
    "never sorted": (223, 236),
    # Not in §13, but said in DESIGN, which wins.
    "| 10 / 11 / 12 / 13 | no such home or run / `Held` / `Corrupt` / `Storage` (disk full, denied, sync failed) |": (
        23,
    ),
    "| 1 | proposed: arguments must be JSON by a documented rule, else refused with the path before anything ran |": (
        108, 240,
    ),
    "recorded capability decides an open attempt, a newer one only if stricter": (138, 139),
    "bounded retries on Windows' transient errors, then an error of its own and no temp file left": (187,),
}  # fmt: skip

# What a reader should know of a statement that is tested.
NOTES = {
    23: "an id without a journal is an error at every door, by #62's code",
    36: "what is published is renamed, and only Windows refuses that for a moment",
    37: "the same; the wait is 2.5 s",
    52: "a store has one boundary, so no record names a level; latency is measured in `bench/`",
    53: "nothing counts the pending ones; the caller waits",
    55: "there is no flush: every append is one",
    95: "loop records are read in foreign journals; clew writes none while it aborts",
    103: "the figure is in `bench/`; what is asserted is that waiting ends, and that the journal says so",
    104: "a home runs any number at once; one run has one leg",
    108: "W35 forbids it: a shared part is written where it stands, a circle is refused",
    136: "of words; an undeclared tool is external and not repeatable, a record that lacks a member is refused",
    138: "a capability has one origin, the declaration of its tool; there are no constraints beside it",
    139: "the same",
    140: "the checkpoint follows from the effect; nobody declares it",
    143: "call ids are counted; one that stands for two calls is a finding (I-6), a name for two tools has this code",
    220: "steps are numbered: `loop-plan-1`, `loop-execute-1`; what is replayed stands in the `resume` record's plan",
    221: "a limit or a pause of the run leaves the loop in its phase, for the run resumes (DESIGN §6)",
    222: "off is `clew verify`, eval its `--deep`, gate the snapshot",
    238: "secrets only: a body or a command without one is recorded",
}

KINDS = {
    "K1": ("Call and result no longer pair up", (1, 2, 3, 5, 6, 7, 8, 9, 10, 11)),
    "K2": ("Tokens, cost or limits wrong", (12, 13, 14, 15, 16, 17, 18, 20, 21)),
    "K3": ("Journal size, memory, slow resume", (22, 23, 25, 26, 27)),
    "K4": ("Journal corrupt, torn, misread or overwritten", (28, 29, 30, 31, 33, 34, 35, 36, 37)),
    "K5": ("Wrong terminal state", (38, 39, 40, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51)),
    "K6": ("A restore destroys or misses something", (53, 54, 55, 56, 57, 59, 60, 61, 62, 63, 64, 65)),
    "K7": ("Locks and concurrent writers", (66, 67, 68, 70, 71, 72, 73, 74)),
    "K8": ("Effect repeated or skipped on resume", (75, 76, 77, 78, 79, 81, 82, 84, 85, 86, 87, 88, 89)),
    "K9": ("Values that do not survive storage", (90, 91, 92, 94, 95, 96)),
    "K10": ("Approval lost, stale or ignored", (97, 99, 100, 101, 102, 103, 104, 105)),
    "K11": ("Compaction, migration or re-ordering loses state", (106, 108, 109, 110, 111, 113, 114)),
    "K12": ("Platform", (115, 116, 117, 119, 120, 121, 122, 123, 124, 125, 126)),
}
# A case of these kinds that waits -> for which theme, and why.
LATER_CASES: dict[int, str] = {}
# What a reader should know of a case that is tested.
CASE_NOTES = {
    40: "the tool says that it failed; what an adapter of ours makes of two signals comes with the integrations",
    78: "checkpoints carry the key when there are any",
    88: "the state that a compaction may not forget is the journal's; that of a conversation is C108",
}

HEAD = """\
# The contract, number by number

<!-- Written by `python docs/contract.py` from the docstrings of the tests. Do not edit. -->

The reference contract has 250 numbered statements. Each is asserted by the tests named here, or replaced by a sentence
of our own design, or waits for a theme that is still to come. Sentences in quotation marks are the design's.
"""

CASES = """\
## Cases

Public reports of what went wrong elsewhere, by kind.
"""


@dataclass(frozen=True)
class Proof:
    """One test that names a statement or a case: its file below the project's root, and its name."""

    place: str
    name: str


def numbers(text: str) -> set[int]:
    """The statements that a docstring names: `#14`, and each from `#14` to the end of `#14 to #16`."""
    found = re.findall(r"(?<![\w>})])#(\d{1,3})\b(?: to #(\d{1,3})\b)?", text)
    return {number for first, last in found for number in range(int(first), int(last or first) + 1)}


def cases(text: str) -> set[int]:
    """The cases that a docstring names: `C28`."""
    return {int(number) for number in re.findall(r"\bC(\d{2,3})\b", text)}


def docstrings(files: Iterable[tuple[str, str]]) -> Iterator[tuple[Proof, str]]:
    """Each test function of the files, given as place and text, with its docstring."""
    for place, text in files:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield Proof(place, node.name), ast.get_docstring(node) or ""


@cache
def told() -> tuple[tuple[Proof, str], ...]:
    """What the tests of the project say of themselves, in the order of their files."""
    files = sorted(TESTS.rglob("test_*.py"))
    return tuple(docstrings((path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in files))


def store_cases() -> list[tuple[Proof, tuple[int, ...]]]:
    """The public cases of run stores, each with the statements that it names."""
    kits = ((CONFORMANCE, RUN_STORE_CASES), (SESSION_CONFORMANCE, SESSION_STORE_CASES))
    return [(Proof(page, f"case {case.name}"), case.contract) for page, cases in kits for case in cases]


def proofs() -> dict[int, list[Proof]]:
    """Statements with the tests that name them, in the order of files."""
    found: dict[int, list[Proof]] = {}
    named = [(proof, numbers(text)) for proof, text in told()]
    for proof, said in [*named, *store_cases()]:
        for number in said:
            found.setdefault(number, []).append(proof)
    return found


def case_proofs() -> dict[int, list[Proof]]:
    """Cases with the tests that name them."""
    found: dict[int, list[Proof]] = {}
    for proof, text in told():
        for number in cases(text):
            found.setdefault(number, []).append(proof)
    return found


def replaced() -> dict[int, list[str]]:
    """Statements with the sentences that stand in their place."""
    found: dict[int, list[str]] = {}
    for sentence, given in REPLACED.items():
        for number in given:
            found.setdefault(number, []).append(sentence)
    return found


def group_of(number: int) -> Group:
    """The section that a statement stands in."""
    return next(group for group in reversed(GROUPS) if group.first <= number)


def standing(number: int, tested: dict[int, list[Proof]]) -> str:
    """`replaced`, `tested`, `later`, or empty where a statement that is due has neither."""
    if number in replaced():
        return "replaced"
    if tested.get(number):
        return "tested"
    return "later" if group_of(number).theme else ""


def page() -> str:
    """The whole of `docs/contract.md`."""
    tested, known = proofs(), case_proofs()
    groups = [_group_section(group, tested) for group in GROUPS]
    kinds = [_kind_section(kind, known) for kind in KINDS]
    return "\n".join([HEAD, *groups, CASES, *kinds]).rstrip() + "\n"


def _group_section(group: Group, tested: dict[int, list[Proof]]) -> str:
    following = [other.first for other in GROUPS if other.first > group.first]
    members = range(group.first, min([*following, LAST + 1]))
    rows = [(number, _account(number, tested)) for number in members]
    lines = [f"## {group.letter}. {group.title}", "", "| # | where |", "|---|---|"]
    for account, run in groupby(rows, key=lambda row: row[1]):
        held = [number for number, _ in run]
        named = f"{held[0]} to {held[-1]}" if len(held) > 1 else str(held[0])
        lines.append(f"| {named} | {account} |")
    return "\n".join([*lines, ""])


def _account(number: int, tested: dict[int, list[Proof]]) -> str:
    instead = [f"“{sentence.strip('| ').replace('|', ': ')}”" for sentence in replaced().get(number, [])]
    theme = group_of(number).theme
    waits = [f"later: {theme}"] if theme and not tested.get(number) else []
    missing = [] if standing(number, tested) else ["**nothing**"]
    note = [NOTES[number]] if number in NOTES else []
    return "<br>".join([*missing, *instead, *waits, *note, *_links(tested.get(number, []))])


def _links(found: list[Proof]) -> list[str]:
    return [f"[{proof.name}](../{proof.place})" for proof in dict.fromkeys(found)]


def _kind_section(kind: str, known: dict[int, list[Proof]]) -> str:
    title, members = KINDS[kind]
    lines = [f"### {kind}. {title}", "", "| case | where |", "|---|---|"]
    for number in members:
        said = [f"later: {LATER_CASES[number]}"] if number in LATER_CASES else []
        said += [CASE_NOTES[number]] if number in CASE_NOTES else []
        account = "<br>".join([*said, *_links(known.get(number, []))]) or "**nothing**"
        lines.append(f"| C{number:02} | {account} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8", newline="\n")
