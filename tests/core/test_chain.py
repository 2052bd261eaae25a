"""The chain."""

from hypothesis import given
from hypothesis import strategies as st

from clew.core.chain import genesis, link


def test_the_first_value_is_the_one_of_the_specification() -> None:
    """Another program must be able to verify our journals from the page alone."""
    value = genesis("01JD4KQ7Z8")

    # printf 'clew-journal-1:01JD4KQ7Z8' | sha256sum
    assert value == "66b89c0e825db4812eadcb3a5e2a1a2089d06f6d9ab895ff1ab066dee05783cc"


def test_the_first_value_differs_between_runs() -> None:
    """Else a line could move to another run."""
    values = {genesis("a"), genesis("b"), genesis("ab")}

    assert len(values) == 3


def test_a_link_is_the_one_of_the_specification() -> None:
    """The value covers the value before it as text, and the line without its member `chain`."""
    value = link("0" * 64, b'{"version":1', b',"append":1}')

    # printf '%064d{"version":1,"append":1}' 0 | sha256sum
    assert value == "92e9af4b894851baef7557a8720c0a1273f580243f063a03974e95ac000844f4"


@given(previous=st.sampled_from(["0" * 64, "f" * 64]), before=st.binary(max_size=40), cut=st.integers(0, 40))
def test_where_a_line_is_cut_does_not_matter(previous: str, before: bytes, cut: int) -> None:
    """The pieces are how a line is at hand, not part of what is covered."""
    value = link(previous, before[:cut], before[cut:])

    assert value == link(previous, before, b"")


@given(line=st.binary(min_size=1, max_size=40), at=st.integers(0, 39), bit=st.integers(0, 7))
def test_a_changed_bit_changes_the_value(line: bytes, at: int, bit: int) -> None:
    """This is what makes an edit visible."""
    changed = bytearray(line)
    changed[at % len(line)] ^= 1 << bit

    assert link("0" * 64, bytes(changed), b"") != link("0" * 64, line, b"")


def test_another_value_before_changes_the_value() -> None:
    """This is what makes a deleted, inserted or swapped line visible."""
    values = {link("0" * 64, b"{", b"}"), link("1" + "0" * 63, b"{", b"}")}

    assert len(values) == 2
