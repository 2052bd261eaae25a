"""Each statement of the reference contract is asserted, replaced or openly waiting; the page that says so is made."""

import os
import re
from pathlib import Path

import pytest

from docs import contract
from docs.contract import Proof
from tests.house.tree import ROOT

SHARED = Path(os.environ.get("CLEW_CASES", ROOT.parent / "shared" / "cases")).parent
EVERY = range(1, contract.LAST + 1)


def shared(name: str) -> str:
    """A text that stands beside the project, not in it."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{name} is not beside the project; CLEW_CASES names the folder next to it")
    return path.read_text("utf-8")


def test_the_page_of_the_contract_is_the_tests() -> None:
    """A hand-written list of what is tested is a wish; `python docs/contract.py` writes this one."""
    page = contract.page()

    assert page == contract.PAGE.read_text("utf-8")


def test_every_statement_is_tested_replaced_or_openly_later() -> None:
    """A statement that nobody looked at is where a reference and its successor part silently."""
    tested = contract.proofs()

    missing = [number for number in EVERY if not contract.standing(number, tested)]

    assert [] == missing


def test_no_test_names_a_statement_that_there_is_not() -> None:
    """A slip of the pen would make another statement look tested."""
    unknown = {number: found for number, found in contract.proofs().items() if number not in EVERY}

    assert {} == unknown


def test_every_case_is_tested_or_openly_later() -> None:
    """Each is what somebody really met."""
    known = contract.case_proofs()
    members = [number for _, kind in contract.KINDS.values() for number in kind]

    missing = [f"C{number}" for number in members if number not in known and number not in contract.LATER_CASES]

    assert [] == missing


def test_no_case_waits_that_has_its_test() -> None:
    """An excuse that outlives its reason would excuse the next gap."""
    known = contract.case_proofs()

    stale = [f"C{number}" for number in contract.LATER_CASES if number in known]

    assert [] == stale


def test_the_sentences_that_replace_a_statement_stand_in_the_design() -> None:
    """Who may change the contract is the design, in these words and in no others."""
    design = shared("DESIGN.md")

    invented = [sentence for sentence in contract.REPLACED if sentence not in design]

    assert [] == invented


def test_every_row_by_which_the_design_differs_is_taken_up() -> None:
    """A number that the design changed and this table did not know would be tested for the wrong thing."""
    rows = shared("DESIGN.md").partition("## 13.")[2]
    changed = set()
    for row in re.findall(r"^\| ([^|]*#[^|]*) \|", rows, flags=re.MULTILINE):
        changed |= {number for each in re.split(r",| and ", row) for number in contract.numbers(each)}
    said_elsewhere = {23, 58, 59, 108, 138, 139, 187, 240}

    assert changed | said_elsewhere == set(contract.replaced())


def test_the_groups_are_those_of_the_contract() -> None:
    """The page is made without the contract beside it, so its sections are written down, once."""
    text = shared("reference/contract.md")
    ours = [(group.letter, group.first) for group in contract.GROUPS]
    sections = re.findall(r"^### 3\.([A-X]) .*?^(\d+)\. ", text, flags=re.MULTILINE | re.DOTALL)

    assert ours == [(letter, int(first)) for letter, first in sections]


def test_the_cases_are_those_of_the_reports() -> None:
    """A report that was added must be asked for as well."""
    rows = re.findall(r"^\| C(\d+) \|[^|]*\|[^|]*\| (K\d+) \|", shared("cases/reports.md"), flags=re.MULTILINE)
    kinds = {kind: members for kind, (_, members) in contract.KINDS.items()}

    assert kinds == {kind: tuple(int(number) for number, other in rows if other == kind) for kind in kinds}


# The rules can fail.


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Contract #14, #16: so.", {14, 16}),
        ("Contract #110 to #112; W16.", {110, 111, 112}),
        ("The key `r1:pay-1:c1#2` and <key>#3 and `{key}#4`; C28, issue #1234.", set()),
    ],
)
def test_numbers_are_read_from_a_sentence(text: str, named: set[int]) -> None:
    """An attempt of a call is written alike and names no statement."""
    assert named == contract.numbers(text)


def test_cases_are_read_from_a_sentence() -> None:
    """By their whole name."""
    assert {28, 126} == contract.cases("C28 and (C126), not AC29, C5 or #30.")


def test_only_docstrings_of_tests_count() -> None:
    """A comment, a helper or a file that speaks of a statement asserts nothing."""
    text = '"""Of #1."""\ndef helper():\n    """#2"""\ndef test_a():\n    """#3"""\n    # #4\n'
    text += "class T:\n    def test_b(self): ...\n"

    found = dict(contract.docstrings([("tests/test_x.py", text)]))

    assert {Proof("tests/test_x.py", "test_a"): "#3", Proof("tests/test_x.py", "test_b"): ""} == found


@pytest.mark.parametrize(("number", "expected"), [(1, ""), (20, "replaced"), (245, "later"), (250, "later")])
def test_what_no_test_names_stands_as_the_design_says(number: int, expected: str) -> None:
    """Only a group that waits may wait, and a statement that is due has no excuse."""
    assert expected == contract.standing(number, {})


@pytest.mark.parametrize(("number", "expected"), [(1, "tested"), (20, "replaced"), (245, "tested")])
def test_what_a_test_names_is_tested_unless_it_is_replaced(number: int, expected: str) -> None:
    """What waits may be done early; what the design replaced stays replaced."""
    assert expected == contract.standing(number, {number: [Proof("tests/test_x.py", "test_a")]})
