"""Capabilities: contract §2.9 and #135 to #142 as far as DESIGN §13 lets them stand."""

from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.canon import fingerprint
from clew.core.capability import (
    Capability,
    Disposition,
    Effect,
    Replay,
    fallback,
    read,
    resolve,
    stricter,
    with_checkpoint,
)

EFFECTS: tuple[Effect, ...] = get_args(Effect)
REPLAYS: tuple[Replay, ...] = get_args(Replay)
MEMBERS = (
    "tool", "effect", "replay", "concurrency", "checkpoint", "durability", "source", "resolution", "issues",
)  # fmt: skip

declared = st.builds(
    resolve,
    st.sampled_from(["pay", "read"]),
    st.sampled_from(["", *EFFECTS, "cosmic"]),
    st.sampled_from(["", *REPLAYS, "often"]),
    builtin=st.booleans(),
)


def capability(effect: Effect, replay: Replay) -> Capability:
    return Capability("pay", effect, replay, "run_serial", "none", "critical", "registered", "resolved")


def shape(found: Capability) -> tuple[str, ...]:
    return (found.effect, found.replay, found.concurrency, found.checkpoint, found.durability, found.source)


@pytest.mark.parametrize(
    ("effect", "replay", "expected"),
    [
        ("", "", ("external", "unknown", "run_serial", "none", "critical", "inferred")),
        ("none", "", ("none", "safe", "parallel", "none", "ordinary", "registered")),
        ("none", "unknown", ("none", "unknown", "run_serial", "none", "critical", "registered")),
        ("workspace", "", ("workspace", "unknown", "workspace_exclusive", "required", "critical", "registered")),
        ("workspace", "safe", ("workspace", "safe", "workspace_exclusive", "required", "critical", "registered")),
        ("external", "", ("external", "unknown", "run_serial", "none", "critical", "registered")),
        ("external", "idempotent", ("external", "idempotent", "run_serial", "none", "critical", "registered")),
        ("", "idempotent", ("external", "idempotent", "run_serial", "none", "critical", "registered")),
        ("network", "unsafe", ("network", "unsafe", "run_serial", "none", "critical", "registered")),
        ("process", "", ("process", "unknown", "run_serial", "unsupported", "critical", "registered")),
        ("unknown", "", ("unknown", "unknown", "run_serial", "unsupported", "critical", "registered")),
    ],
)  # fmt: skip
def test_what_a_tool_says_is_resolved(effect: str, replay: str, expected: tuple[str, ...]) -> None:
    """DESIGN §5: undeclared is external and not repeatable; a declared effect is not repeatable unless it says so."""
    found = resolve("pay", effect, replay)

    assert (expected, "resolved", ()) == (shape(found), found.resolution, found.issues)


@pytest.mark.parametrize(
    ("effect", "replay", "expected"),
    [
        ("none", "safe", ("parallel", "none", "ordinary")),
        ("workspace", "idempotent", ("workspace_exclusive", "required", "critical")),
        ("network", "unknown", ("run_serial", "none", "critical")),
    ],
)  # fmt: skip
def test_our_own_tools_are_resolved_as_the_contract_has_them(
    effect: str, replay: str, expected: tuple[str, ...]
) -> None:
    """Contract #135: the rows of §2.9's table for reading, writing and fetching, under our tool names (DESIGN §13)."""
    found = resolve("read_file", effect, replay, builtin=True)

    assert (effect, replay, *expected, "builtin") == shape(found)


@pytest.mark.parametrize(
    ("effect", "replay", "issues"),
    [
        ("cosmic", "safe", ("capability_invalid:effect",)),
        ("external", "often", ("capability_invalid:replay",)),
        ("cosmic", "often", ("capability_invalid:effect", "capability_invalid:replay")),
        ("external", "safe", ("capability_invalid:replay",)),
        ("", "safe", ("capability_invalid:replay",)),
    ],
)
def test_a_bad_word_gives_the_strictest(effect: str, replay: str, issues: tuple[str, ...]) -> None:
    """Contract #136: what is not understood is not trusted; an effect on others is never safe to repeat by itself."""
    found = resolve("pay", effect, replay)

    assert (fallback("pay", list(issues)), issues) == (found, found.issues)


@pytest.mark.parametrize("effect", ["workspace external", "workspace,network", "process+network", "*"])
def test_an_effect_over_several_boundaries_gives_the_strictest(effect: str) -> None:
    """Contract #141: old declarations named several; which of them a start will touch is not known before."""
    found = resolve("pay", effect, "idempotent")

    assert fallback("pay", ["capability_invalid:effect"]) == found


def test_the_fallback_is_the_strictest() -> None:
    """Contract §2.9: the reference refuses a fallback that is anything else."""
    found = fallback("pay", ["capability_invalid:effect"])

    assert ("unknown", "unknown", "run_serial", "unsupported", "critical", "fallback") == shape(found)


@given(declared)
def test_what_can_change_files_has_or_refuses_a_checkpoint(found: Capability) -> None:
    """Contract #140: effect workspace or unknown never stands beside checkpoint none, whatever was declared."""
    assert found.effect not in ("workspace", "unknown") or found.checkpoint != "none"


@pytest.mark.parametrize(("effect", "replay"), list(product(EFFECTS, REPLAYS)))
def test_the_disposition_follows_from_effect_and_replay(effect: Effect, replay: Replay) -> None:
    """Contract #142: all 24 pairs; only none + safe runs again without any question."""
    by_replay: dict[str, Disposition] = {
        "safe": "replay_safe" if effect == "none" else "requires_proof",
        "idempotent": "requires_proof",
        "unknown": "requires_human",
        "unsafe": "forbidden",
    }

    found = capability(effect, replay)

    assert (by_replay[replay], (effect, replay) == ("none", "safe")) == (found.disposition, found.free)


@given(declared)
def test_a_capability_reads_as_it_was_recorded(found: Capability) -> None:
    """A plan rests on the recorded capability, so nothing may be lost on the way."""
    recorded = found.as_json()

    assert (MEMBERS, found) == (tuple(recorded), read(recorded))


@pytest.mark.parametrize("name", MEMBERS)
def test_a_capability_without_a_member_is_none(name: str) -> None:
    """Contract #40: a dimension that is missing is not defaulted."""
    recorded = {key: value for key, value in resolve("pay").as_json().items() if key != name}

    assert read(recorded) is None


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("value", ["cosmic", 1, ["x", 1], None])
def test_a_capability_with_an_unknown_word_is_none(name: str, value: object) -> None:
    """Contract #40: unknown words come from a program that knows more than we do. Only a tool may have any name."""
    found = read({**resolve("pay").as_json(), name: value})

    assert (found is not None) == (name == "tool" and value == "cosmic")


@pytest.mark.parametrize("value", [None, "pay", [], {**resolve("pay").as_json(), "color": "red"}])
def test_what_has_another_shape_is_no_capability(value: object) -> None:
    """Contract §2.9: nine members, no others."""
    assert read(value) is None


@pytest.mark.parametrize(
    "members", [{"issues": []}, {"replay": "safe"}, {"checkpoint": "none"}, {"source": "registered"}], ids=str
)
def test_a_fallback_that_is_not_the_strictest_is_none(members: dict[str, object]) -> None:
    """Contract #40: a fallback that allows more than nothing has been tampered with."""
    recorded = fallback("pay", ["capability_invalid:effect"]).as_json()

    assert read({**recorded, **members}) is None


def test_its_fingerprint_is_that_of_its_json() -> None:
    """A receipt's binding carries it; any program must be able to compute it from the recorded event."""
    found = resolve("pay", "external")

    assert fingerprint(found.as_json()) == found.fingerprint()


@given(declared, declared)
def test_two_capabilities_have_one_fingerprint_only_when_equal(one: Capability, other: Capability) -> None:
    """Contract #89: a receipt must not be re-bound to another capability."""
    assert (one == other) == (one.fingerprint() == other.fingerprint())


@pytest.mark.parametrize(("recorded", "now"), list(product(REPLAYS, REPLAYS)))
def test_a_newer_capability_decides_only_when_it_is_stricter(recorded: Replay, now: Replay) -> None:
    """DESIGN §5, §13 on #93: a new version may forbid a rerun that the old one allowed, never allow one."""
    order = ("safe", "idempotent", "unknown", "unsafe")

    found = stricter(capability("external", recorded), capability("external", now))

    assert max(recorded, now, key=order.index) == found.replay


def test_of_two_equally_strict_the_recorded_one_decides() -> None:
    """What was true when the attempt opened stays true of it."""
    recorded, now = capability("external", "idempotent"), capability("workspace", "idempotent")

    assert recorded is stricter(recorded, now)


@pytest.mark.parametrize(
    ("effect", "kept", "checkpoint"),
    [
        ("workspace", True, "required"),
        ("workspace", False, "unsupported"),
        ("process", True, "required"),
        ("process", False, "unsupported"),
        ("external", False, "none"),
    ],
)
def test_what_is_not_kept_cannot_be_taken_back(effect: str, kept: bool, checkpoint: str) -> None:
    """#140: `none` would say that nothing needs to be."""
    assert checkpoint == with_checkpoint(resolve("edit", effect), kept=kept).checkpoint


def test_what_is_remembered_of_one_reading_speaks_for_no_other() -> None:
    """Nearly all calls of a tool say the same, so it is read once; a forged one of the same tool is still judged."""
    first = resolve("pay", "external").as_json()
    others = [resolve(f"tool{number}", "none").as_json() for number in range(300)]

    assert first == told(read(first))
    assert [None] == [read({**first, "replay": "safe?"})]
    assert first == told(read(first))
    assert others == [told(read(other)) for other in others]
    assert first == told(read(first))


def told(found: Capability | None) -> object:
    return None if found is None else found.as_json()
