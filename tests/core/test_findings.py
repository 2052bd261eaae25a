"""One finding, and the slip on which they are noted."""

from clew.core.findings import INVARIANTS, Finding, Slip


def test_every_invariant_has_its_words() -> None:
    """A label without words sends its reader to a book."""
    assert [f"I-{number}" for number in range(1, 13)] == list(INVARIANTS)
    assert all(INVARIANTS.values())


def test_a_finding_says_what_its_invariant_says() -> None:
    """Whoever reads the JSON has the words beside the label."""
    finding = Finding("I-1", 7, 9, "record 9 stands where record 7 belongs", "")

    assert {
        "label": "I-1", "line": 7, "sequence": 9, "what": "record 9 stands where record 7 belongs", "subject": "",
        "invariant": "records are numbered 1, 2, 3 … as they stand",
    } == finding.as_json()  # fmt: skip


def test_a_slip_counts_what_it_does_not_keep() -> None:
    """A journal that is wrong everywhere must not fill the memory, nor pass for one with two faults."""
    slip = Slip(keep=2)
    for line in (1, 2, 3):
        slip.line = slip.sequence = line
        slip.note("I-3", "behind the finish")

    assert ([1, 2], 3) == ([finding.line for finding in slip.found], slip.count)
