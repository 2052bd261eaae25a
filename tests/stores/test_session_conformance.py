"""Every session store, every case of the public kit."""

from pathlib import Path

import pytest

from clew.testing import SESSION_STORE_CASES, Case, SessionStoreLab
from tests.stores.sessionlabs import file_sessions, memory_sessions


@pytest.mark.parametrize("case", SESSION_STORE_CASES, ids=str)
def test_the_files_pass(case: Case[SessionStoreLab], tmp_path: Path) -> None:
    """They keep the conversations of our users; each case says what would be lost without it."""
    case.run(file_sessions(tmp_path))


@pytest.mark.parametrize("case", SESSION_STORE_CASES, ids=str)
def test_the_memory_passes(case: Case[SessionStoreLab]) -> None:
    """It is the reference, and tests of the runtime stand on it."""
    case.run(memory_sessions())
