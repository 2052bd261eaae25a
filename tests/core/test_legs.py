"""Who opened a leg, read back."""

from typing import Any

import msgspec
import pytest

from clew.core.legs import Leg, read

OWNER: dict[str, Any] = {
    "number": 2,
    "nonce": "n1f3a9c1",
    "purpose": "resume",
    "host": "vm",
    "machineId": "m-7",
    "bootId": "b-1",
    "pid": 812,
    "startTick": 44_120,
    "pidNamespace": "4026531836",
    "user": "ops",
    "version": "0.1.0",
}
AT = "2026-11-29T14:00:00.000Z"


def test_a_recorded_owner_is_read() -> None:
    """The claim of a crashed process is judged by what stands here, so all of it is kept as recorded."""
    leg = read(OWNER, AT, 7)

    assert Leg(2, "n1f3a9c1", "resume", OWNER, AT, 7) == leg


@pytest.mark.parametrize("name", OWNER)
def test_an_owner_without_a_member_is_none(name: str) -> None:
    """A half-known process can never be proved dead."""
    owner = {key: value for key, value in OWNER.items() if key != name}

    assert read(owner, AT, 0) is None


@pytest.mark.parametrize("name", OWNER)
@pytest.mark.parametrize("value", [True, None, 1.0])
def test_a_member_of_another_type_is_none(name: str, value: object) -> None:
    """`true` is no process id, although Python counts it as 1."""
    assert read({**OWNER, name: value}, AT, 0) is None


@pytest.mark.parametrize("owner", [None, "vm", [OWNER]])
def test_what_is_no_object_is_no_owner(owner: object) -> None:
    """A start of another program has no leg at all."""
    assert read(owner, AT, 0) is None


def test_a_leg_is_closed_by_what_closed_it() -> None:
    """An unclosed leg is the claim on the run; its absence must be as certain as its presence."""
    leg = Leg(1, "n", "run", OWNER, AT, 0)

    assert (False, True) == (leg.closed, msgspec.structs.replace(leg, closed_by="pause").closed)
