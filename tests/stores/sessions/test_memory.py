"""The memory of a process as a store of sessions; the kit asks it for everything else."""

import pytest

from clew.errors import NotFound
from clew.stores.sessions.memory import MemorySessionStore
from clew.testing.sessionlab import SESSION, header


def test_what_somebody_takes_away_is_gone() -> None:
    """Tests of the runtime need a session that vanishes under its writer."""
    store = MemorySessionStore()
    store.create(SESSION, header()).close()

    store.implant(SESSION, None)

    with pytest.raises(NotFound, match="there is no session 's1' in 'memory'"):
        store.raw(SESSION)


def test_its_place_is_a_word() -> None:
    """A message may name it."""
    assert "memory" == MemorySessionStore().locate(SESSION)
