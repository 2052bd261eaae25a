"""Which extensions a home loads: declared soundly, trusted, with every capability granted; else nothing runs."""

import copy
import functools
from typing import Any

import pytest

import clew
from clew.runtime.extensions import load
from tests.runtime.stage import code_of


def look(payload: Any) -> None:
    return None


async def look_on(payload: Any) -> None:
    return None


def generator(payload: Any) -> Any:
    yield


def extension(id: str = "watch", **how: Any) -> clew.Extension:
    return clew.Extension(id, "1.0", **{"after_tool": look, **how})


@pytest.mark.parametrize("make", [clew.Home.memory, clew.Home], ids=["memory", "files"])
def test_an_extension_that_is_not_in_the_trust_list_is_refused(make: Any) -> None:
    """#241: code that may look into every call is let in by name or not at all."""
    code = code_of(make, extensions=[extension()], trusted={"other": []})

    assert "extension_not_trusted" == code


def test_without_a_trust_list_nobody_is_trusted() -> None:
    """#241: leaving it out must not mean everybody."""
    code = code_of(clew.Home.memory, extensions=[extension()])

    assert "extension_not_trusted" == code


def test_a_capability_that_is_not_granted_is_named() -> None:
    """#241: every capability that it asks for, not some of them."""
    asking = extension(capabilities=["credentials", "network", "audit"])

    with pytest.raises(clew.Refused) as caught:
        clew.Home.memory(extensions=[asking], trusted={"watch": ["audit"]})

    assert ("extension_capability_denied", ["credentials", "network"]) == (
        caught.value.code, caught.value.facts["missing"],
    )  # fmt: skip


def test_two_extensions_of_one_id_are_refused() -> None:
    """#241: one grant would let in two, and their receipts could not be told apart."""
    code = code_of(clew.Home.memory, extensions=[extension(), extension()], trusted={"watch": []})

    assert "extension_duplicate" == code


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": ""}, {"id": "a b"}, {"id": 7}, {"version": ""}, {"version": None}, {"capabilities": "credentials"},
        {"capabilities": ["a b"]}, {"capabilities": 7}, {"capabilities": {"a": 1}}, {"after_tool": None},
        {"after_tool": "look"}, {"after_tool": generator}, {"timeout_s": 0}, {"timeout_s": -1},
        {"timeout_s": float("inf")}, {"timeout_s": float("nan")}, {"timeout_s": True}, {"timeout_s": "1"},
    ],
    ids=range(18),
)  # fmt: skip
def test_a_declaration_that_cannot_work_is_refused(wrong: dict[str, Any]) -> None:
    """#241: before anything runs, and not in the middle of a payment."""
    declared = {"id": "watch", "version": "1.0", "after_tool": look, **wrong}

    code = code_of(lambda: clew.Extension(**declared))

    assert "extension_invalid" == code


@pytest.mark.parametrize("given", [look, "watch", None], ids=["function", "text", "nothing"])
def test_what_is_no_extension_is_refused(given: Any) -> None:
    """#241: a bare function has neither an id to trust nor a version to record."""
    code = code_of(load, [given], {})

    assert "extension_invalid" == code


@pytest.mark.parametrize("trusted", [["watch"], {"watch": "credentials"}, {"watch": None}, {"watch": [7]}], ids=str)
def test_a_trust_list_of_another_shape_is_refused(trusted: Any) -> None:
    """#241: a text would be read letter by letter, and grant nothing or, worse, something."""
    code = code_of(clew.Home.memory, extensions=[extension()], trusted=trusted)

    assert "extension_invalid" == code


def test_a_refused_extension_leaves_no_trace(tmp_path: Any) -> None:
    """#241: refused before anything runs, so nothing was made either."""
    code_of(clew.Home, tmp_path / ".clew", extensions=[extension()])

    assert [] == list(tmp_path.iterdir())


def test_extensions_are_loaded_in_the_order_of_their_ids() -> None:
    """#242: the order in which somebody wrote them down decides nothing."""
    loaded = load([extension("b"), extension("a.1"), extension("C")], {"a.1": [], "b": [], "C": [], "d": ["x"]})

    assert ["C", "a.1", "b"] == [each.id for each in loaded]


@pytest.mark.parametrize(
    "handler", [look, look_on, functools.partial(look_on), copy.copy], ids=["plain", "async", "partial", "foreign"]
)
def test_plain_and_async_handlers_are_declared_alike(handler: Any) -> None:
    """An author writes what fits their code."""
    declared = clew.Extension("watch", "1.0", capabilities=("credentials",), before_model=handler, timeout_s=3)

    assert ({"before-model": handler}, frozenset({"credentials"}), 3) == (
        declared.handlers, declared.capabilities, declared.timeout_s,
    )  # fmt: skip


def test_an_extension_says_what_it_is() -> None:
    """A list of them in a debugger must be readable."""
    assert "<Extension watch 1.0 after-tool>" == repr(extension())
