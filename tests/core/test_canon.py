"""One text for one value."""

import copy
import json
import math
import struct
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clew.core.canon import _slow, canonical, fingerprint, fingerprint_text, joined
from tests.strategies import json_values, scalars, texts


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        ("51705a2c9eb3e7e410a58f696a770c3ac3885a0cf43eb7fc88f5e47c11d4d30d", {"b": 1, "a": [True, None]}),
        ("761f472f3b8bf626200e697941360b9e109b07e213a94b5bc4587ff66ec7562b", {"order": "1042", "cents": 4200}),
    ],
)
def test_fingerprints_of_the_contract(expected: str, value: Any) -> None:
    """Journals of the reference and our examples carry these (contract #107)."""
    assert expected == fingerprint(value)


def test_a_text_is_taken_by_its_own_bytes() -> None:
    """Contract #109, W51: the whole SHA-256, which the input of the example journals has."""
    assert fingerprint_text("settle order 1042") == "11b72f1448089edce9db6d3d4e390c17c2c5ccf229207f06403fecdc4febbc62"


def test_half_an_emoji_has_a_fingerprint_too() -> None:
    """An input cut inside an emoji must not end in an encoding error."""
    assert fingerprint_text("\ud83d") != fingerprint_text("\ud83e")


def test_a_text_and_its_json_differ() -> None:
    """The two functions are not to be confused by a caller."""
    assert fingerprint("x") != fingerprint_text("x")


@pytest.mark.parametrize(
    ("expected", "bits"),
    [
        ("0", "0000000000000000"),
        ("0", "8000000000000000"),
        ("5e-324", "0000000000000001"),
        ("-5e-324", "8000000000000001"),
        ("1.7976931348623157e+308", "7fefffffffffffff"),
        ("-1.7976931348623157e+308", "ffefffffffffffff"),
        ("9007199254740992", "4340000000000000"),
        ("-9007199254740992", "c340000000000000"),
        ("295147905179352830000", "4430000000000000"),
        ("9.999999999999997e+22", "44b52d02c7e14af5"),
        ("1e+23", "44b52d02c7e14af6"),
        ("1.0000000000000001e+23", "44b52d02c7e14af7"),
        ("999999999999999700000", "444b1ae4d6e2ef4e"),
        ("999999999999999900000", "444b1ae4d6e2ef4f"),
        ("1e+21", "444b1ae4d6e2ef50"),
        ("9.999999999999997e-7", "3eb0c6f7a0b5ed8c"),
        ("0.000001", "3eb0c6f7a0b5ed8d"),
        ("333333333.3333332", "41b3de4355555553"),
        ("333333333.33333325", "41b3de4355555554"),
        ("333333333.3333333", "41b3de4355555555"),
        ("333333333.3333334", "41b3de4355555556"),
        ("333333333.33333343", "41b3de4355555557"),
        ("-0.0000033333333333333333", "becbf647612f3696"),
        ("1424953923781206.2", "43143ff3c1cb0959"),
    ],
)
def test_numbers_of_rfc_8785(expected: str, bits: str) -> None:
    """The samples of its appendix B, which other programs follow."""
    number = struct.unpack(">d", bytes.fromhex(bits))[0]

    assert expected == canonical(number).decode()


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_reads_back_equal(value: float) -> None:
    """Its digits are the shortest that do."""
    assert value == float(canonical(value))


@pytest.mark.parametrize("value", [2**53 + 1, -(2**63) - 1, 2**64, 10**4299, -(10**4299)])
def test_integers_of_any_size_are_exact(value: int) -> None:
    """Two order numbers that differ in the last digit are two orders."""
    assert str(value).encode() == canonical(value)


def test_a_whole_float_is_its_integer() -> None:
    """JSON has one kind of number; 1.0 read by JavaScript is 1."""
    assert canonical([1, 100]) == canonical([1.0, 100.0])


def test_keys_are_sorted_by_utf_16_code_unit() -> None:
    """Contract #106, RFC 8785 §3.2.3: an emoji sorts before U+FB33 although its code point is greater."""
    value = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "\u00f6": 7}

    assert ["\r", "1", "\x80", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"] == list(json.loads(canonical(value)))


def test_characters_are_escaped_as_json_stringify_does() -> None:
    """Every control character, quote and backslash; everything else stands for itself."""
    text = '\x00\x08\t\n\x0b\x0c\r\x1f"\\/\x7f\u2028é'

    assert '"\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f\\"\\\\/\x7f\u2028é"'.encode() == canonical(text)


def test_a_lone_surrogate_is_written_as_an_escape() -> None:
    """Half an emoji in an argument must still be compared and stored."""
    assert rb'{"\udc00":"a\ud83dZ"}' == canonical({"\udc00": "a\ud83dZ"})


def test_a_pair_of_surrogates_is_its_character() -> None:
    """Halves that meet in a stream read back from JSON as one character."""
    assert canonical(["\ud83d\ude00", "\ud800"]) == canonical(["\U0001f600", "\ud800"])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, (1,), {1}, b"x", object(), {"a": [1, {"b": (1,)}]}])
def test_what_is_not_json_is_a_bug(value: Any) -> None:
    """A fingerprint of null instead of NaN would make two different calls one."""
    with pytest.raises(AssertionError):
        canonical(value)


@given(json_values())
@example({"\uffff": 1, "\U00010000": 2})
@example({"\uffff": 1.5, "\U00010000": {"\ud800": 1e21}})
def test_the_fast_way_equals_the_definition(value: Any) -> None:
    """The short cut through msgspec is allowed because nobody can tell."""
    assert _slow(value).encode() == canonical(value)


plain = st.none() | st.booleans() | st.integers() | st.text(max_size=20)


@given(json_values(plain))
def test_the_fast_way_equals_the_definition_without_floats(value: Any) -> None:
    """Most arguments are such: here the short cut is really taken."""
    assert _slow(value).encode() == canonical(value)


@given(st.dictionaries(st.text(st.sampled_from("a\ud7ff\ue000\uffff\U00010000\U0010ffff"), max_size=3), scalars))
def test_the_order_of_keys_at_the_end_of_the_plane(value: dict[str, Any]) -> None:
    """UTF-8 and UTF-16 disagree exactly here."""
    expected = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))

    assert expected == list(json.loads(canonical(value)))


# Above 2**53 an integer's digits are those of no float, so Python's exact comparison would see a difference.
moderate = st.none() | st.booleans() | st.integers() | st.floats(-1e15, 1e15) | texts


@given(json_values(moderate))
def test_the_text_is_json_of_the_value(value: Any) -> None:
    """Nothing is lost, so two values never share a text."""
    assert value == json.loads(canonical(value))


def test_true_is_not_one() -> None:
    """Python says they are equal; two calls with them are not."""
    assert canonical([True, False]) != canonical([1, 0])


@given(json_values())
def test_the_text_is_utf_8_without_white_space(value: Any) -> None:
    """Contract #106: one more space would be another fingerprint."""
    text = canonical(value).decode()

    assert json.dumps(json.loads(text), separators=(",", ":")).count(" ") == text.count(" ")


@given(st.dictionaries(texts, json_values(), min_size=2, max_size=6))
def test_the_order_of_members_does_not_show(value: dict[str, Any]) -> None:
    """A model that names its arguments in another order asks for the same call."""
    assert fingerprint(value) == fingerprint(dict(reversed(value.items())))


@given(json_values())
def test_shared_parts_do_not_show(part: Any) -> None:
    """Contract #108 is not followed, W35: equal values with shared sub-objects had other hashes there."""
    assert fingerprint([copy.deepcopy(part), copy.deepcopy(part)]) == fingerprint([part, part])


def test_no_word_of_the_users_means_a_reference() -> None:
    """Contract #108 is not followed, W35: a value that looks like the reference's mark is a value like any other."""
    marked = {"a": {"$coremindRef": "#/b"}, "b": {"x": 1}}

    assert b'{"a":{"$coremindRef":"#/b"},"b":{"x":1}}' == canonical(marked)
    assert fingerprint(marked) != fingerprint({"a": marked["b"], "b": marked["b"]})


@given(st.text(st.characters(exclude_categories=())))
def test_joined_is_what_json_reads_back(text: str) -> None:
    """Halves of an emoji that meet are one character, everything else stays."""
    assert json.loads(json.dumps(text)) == joined(text)


def test_every_character_is_written_like_the_definition() -> None:
    """msgspec's escapes are those of RFC 8785, for each of them; a release that changed one goes red here."""
    every = "".join(chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF)

    assert _slow(every).encode() == canonical(every)
