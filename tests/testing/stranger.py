"""All that a stranger writes to put a store to the test."""

import sqlite3

import pytest

from clew.testing import RUN_STORE_CASES, RunStoreLab, failing_call
from tests.testing.sqlite_store import SqliteRunStore

FULL = sqlite3.OperationalError("disk I/O error")


@pytest.mark.parametrize("case", RUN_STORE_CASES, ids=str)
def test_my_store(case, tmp_path):
    """What is lost without it, each case says."""
    path = f"{tmp_path}/runs.db"
    case.run(
        RunStoreLab(
            store=lambda: SqliteRunStore(path),
            raw=SqliteRunStore(path).dump,
            implant=SqliteRunStore(path).load,
            fail=lambda step: failing_call("commit" if step == "sync" else "execute", error=FULL),
            elsewhere=f"from tests.testing.sqlite_store import SqliteRunStore; store = SqliteRunStore({path!r})",
        )
    )
