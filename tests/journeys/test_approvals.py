"""Approvals through deaths of real processes: none is lost, each is used by one start, nothing is paid without."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.canon import fingerprint
from tests.journeys.clerk import CENTS, LAPSES_S
from tests.journeys.town import KEPT

pytestmark = pytest.mark.journeys

CLERK = Path(__file__).with_name("clerk.py")
RUNS = 200
WHO: dict[str, Any] = {"by": "ann", "reason": "looked"}
WAITS, DENIED, DONE, KILLED = 20, 20, 0, -9


class Office:
    """A folder with a home, clerks as processes, and the book of what was paid."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "agent.py").write_text("", "utf-8")
        self.home = clew.Home(folder / ".clew", takeover="operator")
        self.runs = [f"run-{number}" for number in range(RUNS)]

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """A clerk at work."""
        return subprocess.Popen(
            [sys.executable, str(CLERK), *words],
            cwd=self.folder,
            env={**KEPT, "PATH": "", "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def go(self, deed: str, runs: list[str] | None = None, *words: str) -> Counter[int]:
        """Each run in a process of its own; how many ended how."""
        said, _ = self.start(deed, ",".join(runs or self.runs), *words).communicate(timeout=280)
        return Counter(int(line.split()[1]) for line in said.splitlines())

    @property
    def paid(self) -> list[list[str]]:
        """Key, fingerprint and cents of each payment."""
        book = self.folder / "paid"
        return [line.split() for line in book.read_text("ascii").splitlines()] if book.exists() else []

    def paid_for(self) -> Counter[tuple[str, str]]:
        """How often which run paid how much."""
        return Counter((key.partition(":")[0], cents) for key, _, cents in self.paid)

    def events(self, run_id: str) -> Iterator[dict[str, Any]]:
        """The events of a journal, read with nothing but the standard library."""
        journal = self.folder / ".clew" / "runs" / f"{run_id}.jsonl"
        for record in map(json.loads, journal.read_text("utf-8").splitlines()):
            if record["kind"] == "event":
                yield record["payload"]["event"]

    def faults(self) -> dict[str, list[str]]:
        """Everything that must not be, of all runs: each found by reading the journals and the book alone."""
        found: dict[str, list[str]] = {"lost": [], "used without a start": [], "other arguments": [], "unapproved": []}
        starts: Counter[tuple[str, str]] = Counter()
        for run_id in self.runs:
            self._judge(run_id, found, starts)
        for (key, digest), times in Counter((key, digest) for key, digest, _ in self.paid).items():
            if times > starts[key, digest]:
                found["unapproved"].append(f"{key} paid {times} times")
        return found

    def _judge(self, run_id: str, found: dict[str, list[str]], starts: Counter[tuple[str, str]]) -> None:
        asked: dict[str, dict[str, Any]] = {}
        granted: dict[str, list[str]] = {}
        started: list[str] = []
        for event in self.events(run_id):
            kind = event["type"]
            if kind == "approval_required":
                asked[event["approvalId"]] = event
            elif kind == "approval_resolved" and event["decision"] == "allow":
                wanted = asked[event["approvalId"]]
                granted.setdefault(wanted["idempotencyKey"], []).append(wanted["argumentsFingerprint"])
            elif event.get("status") == "started":
                key = event.get("idempotencyKey") or event["attemptId"].partition("#")[0]
                digest = event.get("argumentsFingerprint") or event["binding"]["argumentsFingerprint"]
                started.append(key)
                starts[key, digest] += 1
                permitted = granted.get(key) or []
                if not permitted:
                    found["unapproved"].append(f"{key} started")
                elif digest != permitted.pop():
                    found["other arguments"].append(key)
        known = [row["approvalId"] for row in self.home.result(run_id).snapshot["approvals"]]
        if known != list(asked):
            found["lost"].append(run_id)
        used = [row for row in self.home.result(run_id).snapshot["approvals"] if row["standing"] == "used"]
        if len(used) != len(started):
            found["used without a start"].append(run_id)


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


NONE: dict[str, list[str]] = {"lost": [], "used without a start": [], "other arguments": [], "unapproved": []}


def once(office: Office, cents: int = CENTS) -> Counter[tuple[str, str]]:
    """Each run paid this, once."""
    return Counter({(run_id, str(cents)): 1 for run_id in office.runs})


def test_a_restart_between_question_and_answer_loses_nothing(office: Office) -> None:
    """C97: 200 processes killed behind the question or before the pause; another process says yes, a third one pays."""
    half = RUNS // 2
    killed = office.go("run", office.runs[:half], "asked") + office.go("run", office.runs[half:], "pause")
    waiting = [len(office.home.result(run_id).waiting) for run_id in office.runs]
    for run_id in office.runs:
        office.home.approve(run_id, **WHO)

    ended = office.go("resume")

    assert (Counter({KILLED: RUNS}), [1] * RUNS, Counter({DONE: RUNS})) == (killed, waiting, ended)
    assert (NONE, once(office)) == (office.faults(), office.paid_for())


@pytest.mark.parametrize("words", [("approve", "approve"), ("approve", "deny")], ids=" and ".join)
def test_of_two_reviewers_at_once_one_is_heard(office: Office, words: tuple[str, str]) -> None:
    """Two processes decide the same question at the same moment: one word stands, the other is told so."""
    waits = office.go("run")
    reviewers = [office.start("review") for _ in words]
    said = Counter[tuple[str, ...]]()
    won = dict[str, str]()
    for run_id in office.runs:
        for reviewer, word in zip(reviewers, words, strict=True):
            assert reviewer.stdin is not None
            reviewer.stdin.write(f"{word} {run_id}\n")
            reviewer.stdin.flush()
        heard = [reviewer.stdout.readline().split()[1] for reviewer in reviewers if reviewer.stdout is not None]
        said[tuple("heard" if each in words else each for each in sorted(heard))] += 1
        won[run_id] = next(each for each in heard if each in words)
    for reviewer in reviewers:
        reviewer.communicate(timeout=60)

    ended = office.go("resume")

    allowed = sum(word == "approve" for word in won.values())
    assert (Counter({WAITS: RUNS}), Counter({("approval_closed", "heard"): RUNS})) == (waits, _sorted(said))
    assert Counter({DONE: allowed, WAITS: RUNS - allowed}) == Counter({WAITS: 0, **ended})
    assert (NONE, allowed) == (office.faults(), len(office.paid))


def _sorted(said: Counter[tuple[str, ...]]) -> Counter[tuple[str, ...]]:
    return Counter({tuple(sorted(words)): times for words, times in said.items()})


def test_changed_arguments_are_asked_for_again(office: Office) -> None:
    """C105: 200 permissions for one sum, an agent that then wants another: nothing is paid until that is allowed."""
    office.go("run")
    for run_id in office.runs:
        office.home.approve(run_id, **WHO)
    again = office.go("resume", office.runs, "-", "9999")
    before = len(office.paid)
    for run_id in office.runs:
        office.home.approve(run_id, **WHO)

    ended = office.go("resume", office.runs, "-", "9999")

    assert (Counter({WAITS: RUNS}), 0, Counter({DONE: RUNS})) == (again, before, ended)
    assert (NONE, once(office, 9999)) == (office.faults(), office.paid_for())


def test_what_lapsed_starts_nothing(office: Office) -> None:
    """100 questions and 100 permissions lapse between two processes: a person is asked anew, then it is paid once."""
    half = RUNS // 2
    office.go("run")
    for run_id in office.runs[half:]:
        office.home.approve(run_id, expires_in_s=LAPSES_S, **WHO)
    later = str(int(LAPSES_S) + 60)
    again = office.go("resume", office.runs, "-", str(CENTS), later)
    before = len(office.paid)
    for run_id in office.runs:
        office.home.approve(run_id, **WHO)

    ended = office.go("resume", office.runs, "-", str(CENTS), later)

    assert (Counter({WAITS: RUNS}), 0, Counter({DONE: RUNS})) == (again, before, ended)
    assert (NONE, once(office)) == (office.faults(), office.paid_for())


def test_a_death_between_the_yes_and_the_start_asks_nobody_again(office: Office) -> None:
    """C105: 200 processes killed behind the leg's first append or before the start: the permission stands, once."""
    half = RUNS // 2
    office.go("run")
    for run_id in office.runs:
        office.home.approve(run_id, **WHO)
    killed = office.go("resume", office.runs[:half], "opened") + office.go("resume", office.runs[half:], "start")
    before = len(office.paid)

    ended = office.go("resume")

    assert (Counter({KILLED: RUNS}), 0, Counter({DONE: RUNS})) == (killed, before, ended)
    assert (NONE, once(office)) == (office.faults(), office.paid_for())


def test_the_judge_sees_what_must_not_be(office: Office) -> None:
    """A sweep that cannot find a fault proves nothing: payments nobody allowed, in the book alone."""
    office.runs = office.runs[:1]
    office.go("run")
    digest = fingerprint({"order": "run-0", "cents": CENTS})
    (office.folder / "paid").write_text(f"run-0:pay-1:c1 {digest} {CENTS}\n", "ascii")

    assert ["run-0:pay-1:c1 paid 1 times"] == office.faults()["unapproved"]
