"""Row 16: what is said twice counts once. Generated runs, each append of them given again, and given otherwise."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings

from clew.core.codec import encode_append
from clew.core.events import Event
from clew.core.records import Batch, Draft
from clew.errors import Corrupt, Storage
from clew.stores.base import RunStore
from clew.stores.jsonl import FileRunStore
from clew.stores.memory import MemoryRunStore
from tests.crash.counts import some
from tests.crash.sweep import in_memory
from tests.histories import RUN
from tests.strategies import History, histories

ONCE = ("effect_receipt", "tool_attempt", "step_output", "effect_review", "tool_call", "approval_resolved")
quietly = settings(deadline=None, suppress_health_check=list(HealthCheck))


def batches(history: History) -> list[Batch]:
    return [composed.batch for composed in history.scribe.appends if composed.batch.data]


def otherwise(batch: Batch, chain: str) -> Batch:
    """An append of the same place that says something else."""
    drafts = [Draft(record.kind, {**record.payload, "more": 1}) for record in batch.records]
    ids = [str(record.event_id) for record in batch.records]
    return encode_append(
        RUN, after=batch.first - 1, chain=chain, drafts=drafts, timestamp=batch.records[0].timestamp, event_ids=ids
    )


def given_twice(store: RunStore, history: History) -> Iterator[tuple[object, object]]:
    """Each append, and each again once it stands there: where both were said to stand; another one in the end."""
    first, *later = batches(history)
    writer, chain = store.create(RUN, first), first.chain
    try:
        for before, batch in pairwise((first, *later)):
            chain = before.chain
            yield writer.append(batch), writer.append(batch)
        if later:
            # Whoever says something else in its place is no writer of this journal any more.
            with pytest.raises(Storage) as caught:
                writer.append(otherwise(later[-1], chain))
            assert "run_state_conflict" == caught.value.code
    finally:
        writer.close()


def check(store: RunStore, history: History) -> None:
    found = list(given_twice(store, history))

    assert [first for first, _ in found] == [second for _, second in found]
    assert history.records == [record for record, _ in store.read(RUN)]


@given(history=histories())
def test_an_append_that_is_given_again_stands_once(history: History) -> None:
    """An acknowledgement that was lost on the way is asked for again."""
    check(MemoryRunStore(), history)


@given(history=histories())
def test_a_fact_that_is_said_again_changes_nothing(history: History) -> None:
    """A receipt, an answer, a review: said a second time of the same attempt it is refused, and nothing moves."""
    _say_all_again(history)


def _say_all_again(history: History) -> None:
    before = history.data
    for record in history.records:
        event: Event = record.payload.get("event", {}) if record.kind == "event" else {}
        if event.get("type") in ONCE:
            # In an aborting run it comes too late to be judged: it is counted, and not written.
            with suppress(Corrupt):
                assert b"" == history.scribe.compose(event).batch.data

    assert before == history.data


@pytest.mark.crash
def test_appends_that_are_given_again_stand_once_in_files() -> None:
    """Row 16: 3,000 runs in memory and 600 in files (20,000 and 4,000 by `make crash-full`)."""
    in_memory_store = settings(quietly, max_examples=some(3_000, 20_000))
    in_files = settings(quietly, max_examples=some(600, 4_000))

    in_memory_store(given(history=histories())(lambda history: check(MemoryRunStore(), history)))()
    in_memory_store(given(history=histories())(_say_all_again))()
    in_files(given(history=histories())(_check_in_a_file))()


def _check_in_a_file(history: History) -> None:
    with in_memory() as folder:
        check(FileRunStore(folder / "home"), history)
