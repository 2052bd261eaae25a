"""What the labs of all stores share: another process over the same place, gone whatever becomes of the case."""

import pytest

from clew.testing.kit import CaseSkipped
from clew.testing.lab import Lab


def lab_of() -> Lab[str]:
    return Lab(lambda: "a store", fail=None, elsewhere=None, cannot={"elsewhere": "it has no place"})


def test_another_process_has_the_store_and_is_gone_at_the_end() -> None:
    """A case that fails must not leave its holder behind, for the next one would meet it."""
    lab = Lab(lambda: "a store", fail=None, elsewhere="store = 'the same place'", cannot=None)
    with lab.process("print(store, flush=True); input()") as started:
        assert started.stdout is not None
        said = started.stdout.readline()

    assert ("the same place\n", -9) == (said, started.returncode)


def test_a_store_that_no_other_process_reaches_is_skipped_before_one_is_started() -> None:
    """A store in the memory of one process is as good as any other for all other cases."""
    with pytest.raises(CaseSkipped, match="this store has no 'elsewhere': it has no place"), lab_of().process(""):
        raise AssertionError("it was started")
