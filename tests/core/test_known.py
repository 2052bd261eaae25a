"""Held against an earlier verdict, a journal that was cut or put back is found, and one that only grew is not."""

import json
from typing import Any

import pytest

from clew.core.folding import fold
from clew.core.known import KnownEnd, gone, held_against, read_known, unknown
from clew.errors import Corrupt, UsageError
from tests.histories import Scribe, completed, read

TWICE = '[{"runId":"a","records":1,"chain":""},{"runId":"a","records":2,"chain":""}]'


def journal() -> bytes:
    scribe = Scribe().born()
    scribe.say(*completed())
    return scribe.data


def known(records: int) -> KnownEnd:
    at = [record for record, _ in read(journal())][records - 1]
    return KnownEnd(at.run_id, records, at.chain or "")


def seen(data: bytes, end: KnownEnd) -> int:
    return fold(held_against(read(data), end), end.run_id).sequence


def test_a_journal_that_grew_is_still_the_one_that_was_verified() -> None:
    """A run goes on behind its verdict."""
    last = len(journal().splitlines())

    assert [last] * last == [seen(journal(), known(records)) for records in range(1, last + 1)]


def test_a_journal_that_was_cut_behind_whole_records_is_found() -> None:
    """The chain alone holds for every beginning of a journal, so only what is known from elsewhere can tell."""
    lines = journal().splitlines(keepends=True)

    with pytest.raises(Corrupt, match="it ends with record 1, and record 3 was verified before") as error:
        seen(lines[0], known(3))

    assert ("run_state_corrupt", 3) == (error.value.code, error.value.facts["known"])


def test_a_journal_with_another_history_is_found() -> None:
    """Whoever can write the journal can also compute its chain anew."""
    with pytest.raises(Corrupt, match="record 2 is not the one that was verified before"):
        seen(journal(), KnownEnd(known(2).run_id, 2, "0" * 64))


def test_what_verify_says_is_read_back() -> None:
    """One run's answer and that of all are the same to compare with; a run that was damaged then is not known."""
    row = {"runId": "a", "records": 3, "chain": "c" * 64, "tail": {"verdict": "clean"}}
    damaged = {"runId": "b", "error": {"code": "run_state_corrupt"}}

    one, every = read_known(json.dumps(row).encode()), read_known(json.dumps([row, damaged]).encode())

    assert {"a": KnownEnd("a", 3, "c" * 64)} == one == every


@pytest.mark.parametrize(
    "told", ["", "null", "3", "[3]", '{"runId":"a"}', '{"runId":"a","records":"3","chain":""}', TWICE]
)
def test_what_is_no_verdict_is_refused(told: str) -> None:
    """A file that says nothing must not pass for one that agrees."""
    with pytest.raises(UsageError) as error:
        read_known(told.encode())

    assert "invalid_verdict" == error.value.code


def test_of_a_run_that_is_gone_or_not_named_it_is_said() -> None:
    """Neither is a journal that is as it was."""
    facts: dict[str, Any] = gone(KnownEnd("a", 3, "")).facts

    assert (3, 0) == (facts["known"], facts["line"])
    assert "unknown_run" == unknown("a").code
