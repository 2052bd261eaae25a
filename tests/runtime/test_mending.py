"""The end of a session: whatever an append that nobody acknowledged left is cut and kept; damage is left alone."""

from typing import Any

import pytest

from clew.errors import ClewError, Corrupt
from clew.stores.base import SessionStore
from clew.stores.sessions.memory import MemorySessionStore
from tests.power import power_cuts
from tests.runtime.test_session import opened, raw, store, texts, user

__all__ = ["store"]


def test_after_any_death_in_an_append_the_session_goes_on_and_lost_nothing() -> None:
    """What was acknowledged is there, what is cut is kept beside it, and the next message can be said."""
    store = MemorySessionStore()
    with opened(store) as session:
        session.append(user("one"), user("two"))
        kept = store.raw("talk")
        session.append(user("x" * 700), user("y" * 500), user("z"))
    wrong = []
    for state in (kept, *power_cuts(kept, store.raw("talk")[len(kept) :])):
        store.implant("talk", state)
        store.kept.clear()
        try:
            with opened(store) as session:
                good = store.size_bytes("talk")
                session.append(user("next"))
                said = texts(session)
        except ClewError as error:
            wrong.append((len(state), str(error)))
            continue
        cut = b"".join(store.kept.values())
        sound = ["one", "two"] == said[:2] and said[-1] == "next" and 3 <= len(said) <= 6
        if not sound or len(state) not in (good + len(cut), good - 1):
            wrong.append((len(state), str(said)))
        with opened(store) as session:
            assert said == texts(session)

    assert [] == wrong


def test_a_missing_line_end_is_written_before_anything_else(store: SessionStore) -> None:
    """Put there together with the next line, it could be lost while that line is not."""
    with opened(store) as session:
        session.append(user("one"))
    writer = store.open("talk")
    writer.cut(writer.size_bytes - 1)
    writer.close()

    with opened(store) as session:
        assert (True, ["one"]) == (raw(store).endswith(b"\n"), texts(session))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data.replace(b'"seq":1', b'"seq":3', 1),
        lambda data: data.replace(b'"content"', b'"content', 1),
        lambda data: data[:20],
        lambda data: data.replace(b'"talk"', b'"walk"', 1),
        lambda data: data + b"garbage\n",
        lambda data: data.replace(b'\n{"kind":"entry"', b'{"kind":"entry"', 1),
    ],
    ids=["number", "quote", "header", "another", "terminated", "fused"],
)
def test_what_is_damaged_is_neither_cut_nor_gone_on_with(store: SessionStore, spoil: Any) -> None:
    """C97 It may be all that is left; a person looks at it."""
    with opened(store) as session:
        session.append(user("one"))
        session.append(user("two"))
    data = spoil(raw(store))
    writer = store.open("talk")
    writer.renew([data])
    writer.close()

    with pytest.raises(Corrupt) as caught:
        opened(store)

    assert ("session_corrupt", data, True) == (caught.value.code, raw(store), "line" in caught.value.facts)
