"""Content that is compressed where that pays, and comes out as it went in."""

import random
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.stores.squeezed import MAGIC, PIECE, compressed, expanded, framed, pays, pressed, unframed

TEXT = b"a line of a file\n" * 1000
NOISE = random.Random(1).randbytes(20_000)


@given(
    st.lists(st.one_of(st.binary(max_size=50), st.sampled_from([TEXT, NOISE, MAGIC, MAGIC + b"zlib\n"])), max_size=4)
)
def test_content_comes_out_as_it_went_in(pieces: list[bytes]) -> None:
    """Also content that looks like our own first line."""
    data = b"".join(pieces)

    stored = b"".join(framed([data], data, fast=False))

    assert b"".join(unframed(iter([stored]))) == data


@pytest.mark.parametrize(("data", "plain"), [(TEXT, False), (NOISE, True), (b"short", True), (TEXT[:4095], True)])
def test_it_is_compressed_only_where_that_pays(data: bytes, plain: bool) -> None:
    """What cannot shrink stays readable by anybody."""
    stored = b"".join(framed([data], data, fast=True))

    assert (stored == data, len(stored) <= len(data)) == (plain, True)


@pytest.mark.parametrize("data", [TEXT, NOISE, b"x" * 100, TEXT * 10, NOISE * 5])
def test_what_is_pressed_is_smaller_or_not_pressed(data: bytes) -> None:
    """In a pack too."""
    found = pressed(data, smallest=128)

    assert found is None or (b"".join(expanded([found])) == data and len(found) < len(data) and pays(data * 50))


@pytest.mark.parametrize("size", [1, 10, 100, 4096])
def test_compressed_content_may_come_in_any_pieces(size: int) -> None:
    """Files are read in pieces that know nothing of it."""
    whole = b"".join(compressed([TEXT, NOISE], fast=True))

    found = b"".join(expanded(whole[at : at + size] for at in range(0, len(whole), size)))

    assert found == TEXT + NOISE


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: b"x" + data,
        lambda data: b"",
        lambda data: data[:40],
    ],
)
def test_compressed_content_that_is_not_whole_is_refused(spoil) -> None:
    """Half a content must not pass for a short one."""
    whole = b"".join(compressed([TEXT], fast=True))

    with pytest.raises(ValueError, match=r"^its? "):
        b"".join(expanded([spoil(whole)]))


def test_a_way_of_a_later_clew_is_refused() -> None:
    """Not handed out as if it were the content."""
    with pytest.raises(ValueError, match="does not know"):
        b"".join(unframed(iter([MAGIC + b"zstd\nxxx"])))


def test_what_expands_without_end_is_never_in_memory_at_once() -> None:
    """A gigabyte of zeros fits in a megabyte, and must not be believed to be one."""
    bomb = zlib.compress(bytes(64 * PIECE), 9)

    tracemalloc.start()
    longest = max(len(piece) for piece in expanded([bomb]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert (longest, peak < 8 * PIECE) == (PIECE, True)


@pytest.mark.parametrize("near", [PIECE, 2 * PIECE])
def test_the_end_comes_out_wherever_a_piece_ends(near: int) -> None:
    """All bytes may be in and not all be out: nothing must be lost at the edge of a piece."""
    lost = [
        size
        for size in range(near - 40, near + 300)
        if size != sum(len(piece) for piece in expanded([zlib.compress(bytes(size), 9)]))
    ]

    assert [] == lost
