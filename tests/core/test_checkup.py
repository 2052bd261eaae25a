"""What a doctor goes by, as values."""

import msgspec

from clew.core.checkup import KEPT, Checkup, Some, Survey


def test_only_the_first_of_a_kind_are_kept() -> None:
    """Ten thousand broken runs must not fill a screen, or the memory."""
    found = Some.of({"run": str(number)} for number in range(10_000))

    assert (10_000, [str(number) for number in range(KEPT)]) == (found.count, [one["run"] for one in found.first])


def test_one_more_leaves_the_others_as_they_were() -> None:
    """A value that changed under its holder would be none."""
    before = Some().plus(run="a")
    after = before.plus(run="b")

    assert (1, 2) == (before.count, after.count)
    assert ({"run": "a"}, {"run": "b"}) == after.first


def test_the_facts_are_json() -> None:
    """`clew doctor --json` prints them beside the findings."""
    found = msgspec.json.decode(msgspec.json.encode(Checkup(Survey("/srv/.clew"), 1)))

    assert ("/srv/.clew", 1, {"count": 0, "first": []}) == (found["survey"]["path"], found["nowMs"], found["gone"])
