"""All that a stranger writes to put a session store to the test."""

import sqlite3

import pytest

from clew.testing import SESSION_STORE_CASES, SessionStoreLab, failing_call
from tests.testing.sqlite_sessions import SqliteSessionStore

FULL = sqlite3.OperationalError("disk I/O error")


@pytest.mark.parametrize("case", SESSION_STORE_CASES, ids=str)
def test_my_store(case, tmp_path):
    """What is lost without it, each case says."""
    mine = SqliteSessionStore(f"{tmp_path}/talk.db")
    lab = SessionStoreLab(
        store=lambda: SqliteSessionStore(mine.path),
        raw=lambda session_id: mine.row(session_id)[1],
        implant=mine.load,
        kept=mine.kept,
        fail=lambda step: failing_call("commit" if step == "sync" else "execute", error=FULL),
        elsewhere=f"from tests.testing.sqlite_sessions import SqliteSessionStore as S; store = S({mine.path!r})",
    )
    case.run(lab)
