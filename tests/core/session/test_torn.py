"""The end of a session of ours: what a lost append leaves is torn, and nothing else is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.codec import MAX_APPEND, BadLine, strict_json
from clew.core.session.torn import is_torn, marked
from tests.power import power_cuts

HEADER = b'{"kind":"header","version":4,"id":"s1","createdAt":1,"cwd":"/"}\n'


def entry(seq: int, text: str = "hello") -> bytes:
    message = {"role": "user", "content": text}
    return json.dumps(
        {"kind": "entry", "id": f"e{seq}", "seq": seq, "message": message}, separators=(",", ":")
    ).encode()


KEPT = HEADER + marked([entry(1)], 1) + marked([entry(2, "x" * 300), entry(3)], 2)
ALONE = marked([entry(4, "y" * 1400)], 4)
SEVERAL = marked([entry(4, "y" * 700), entry(5), entry(6, "z" * 900), entry(7)], 4)


def first_bad(data: bytes) -> tuple[int, int, bytes]:
    """Where the first line begins that is not the next one of a session, its number, and the good line before it."""
    at, seq, last = 0, 0, b""
    while at < len(data):
        stop = data.find(b"\n", at)
        line = data[at : stop if stop >= 0 else None]
        try:
            value = strict_json(line)
        except BadLine:
            break
        if value.get("seq", 0) != seq:
            break
        at, seq, last = (stop + 1 if stop >= 0 else len(data)), seq + 1, line
    return at, seq, last


def verdict(data: bytes) -> tuple[int, bool]:
    """How many bytes are good, and whether the rest is torn."""
    at, seq, last = first_bad(data)
    return at, is_torn(data[at:], at_byte=at, next_seq=seq, last=last)


@pytest.mark.parametrize("append", [ALONE, SEVERAL], ids=["alone", "several"])
def test_whatever_a_lost_append_leaves_is_torn(append: bytes) -> None:
    """Refusing one of these states would lock a person out of a conversation after a power cut."""
    refused = []
    for state in power_cuts(KEPT, append):
        good, torn = verdict(state)
        if good < len(KEPT) or not (torn or good == len(state)):
            refused.append(state)

    assert [] == refused


@given(st.integers(0, len(KEPT) - 2), st.integers(0, 7))
def test_a_flipped_bit_in_an_earlier_append_is_never_torn(at: int, bit: int) -> None:
    """What was acknowledged is never cut; damage there is said, whatever stands behind it."""
    data = bytearray(KEPT + SEVERAL)
    data[at] ^= 1 << bit

    good, torn = verdict(bytes(data))

    assert (good, torn) == (len(data), False) or not torn


@pytest.mark.parametrize("behind", [ALONE, SEVERAL], ids=["alone", "several"])
def test_a_lost_sector_before_the_last_append_is_damage(behind: bytes) -> None:
    """Lines of another append stand behind it, so these were acknowledged."""
    before, lost = KEPT, marked([entry(4, "y" * 1400)], 4)
    hole = bytearray(lost)
    hole[200:1400] = bytes(1200)
    later = behind.replace(b'"seq":4', b'"seq":5').replace(b'"append":4', b'"append":5')

    found = verdict(before + bytes(hole) + later)

    assert (len(before), False) == found


@pytest.mark.parametrize(
    "tail",
    [
        b"",
        b'{"kind":"entry","seq":4,\n',
        b"garbage",
        b'{"kind":"entry","seq":4}{"kind":"entry","seq":5}',
        b'{"kind":"entry","seq":9}',
        b'{"kind":"entry","seq":9}\n',
        b'{"kind":"' + b"x" * MAX_APPEND,
        b'{"kind":"entry"' + bytes(1200) + b"}\n" + entry(5) + b"\n",
    ],
    ids=["nothing", "terminated", "other", "fused", "wrong", "wrong line", "too long", "alone behind"],
)
def test_what_no_append_leaves_is_damage(tail: bytes) -> None:
    """It fails closed: a person looks at it."""
    found = is_torn(tail, at_byte=len(KEPT), next_seq=4, last=entry(3))

    assert not found


def test_a_torn_header_is_damage() -> None:
    """Nothing precedes it, so nobody can say what it was."""
    found = is_torn(HEADER[:20], at_byte=0, next_seq=0, last=b"")

    assert not found


def test_lines_of_one_append_say_where_it_began() -> None:
    """A line alone says nothing, as other writers of this format write it."""
    written = marked([entry(1)], 1), marked([entry(2), entry(3)], 2)

    assert entry(1) + b"\n" == written[0]
    assert [2, 2] == [json.loads(line)["append"] for line in written[1].splitlines()]
