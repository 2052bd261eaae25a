"""The lab of sessions hands on what its author gave, and says openly what it has not."""

import pytest

from clew.stores.sessions.memory import MemorySessionStore
from clew.testing.kit import CaseFailed, CaseSkipped
from clew.testing.sessionlab import SESSION, SessionStoreLab, header, line
from tests.stores.sessionlabs import memory_sessions


def test_a_lab_hands_on_what_it_was_given() -> None:
    """It adds nothing: what is tested is the author's."""
    lab = memory_sessions()
    lab.implant(SESSION, header() + line(1))

    with lab.fail("sync"):
        assert (header() + line(1), None) == (lab.raw(), lab.kept("s1.jsonl.v3.backup"))


@pytest.mark.parametrize("name", ["raw", "implant", "kept", "fail", "elsewhere"])
def test_a_lack_is_skipped_when_declared_and_fails_otherwise(name: str) -> None:
    """Each of the five, by its name."""
    given = {"raw": ("s1",), "implant": ("s1", b""), "kept": ("s1",), "fail": ("sync",), "elsewhere": ()}[name]
    memory = MemorySessionStore()
    bare, honest = SessionStoreLab(lambda: memory), SessionStoreLab(lambda: memory, cannot={name: "it is a queue"})

    with pytest.raises(CaseFailed, match=f"give the lab its '{name}'"):
        getattr(bare, name)(*given)
    with pytest.raises(CaseSkipped, match=f"this store has no '{name}': it is a queue"):
        getattr(honest, name)(*given)
