"""How a run begins, and which ids it may have. What happens to one that has begun is in the other modules."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Final

from clew.core.records import Batch, Record
from clew.errors import NotFound, Refused, UsageError
from clew.stores.base import Command, RunStore, RunWriter
from clew.testing.faults import Strikes, in_small_steps
from clew.testing.kit import Case, case, cases_of, expect, refused
from clew.testing.lab import Step
from clew.testing.storelab import RUN, Hand, RunStoreLab, born, read_all, sample, told

_LEGAL: Final = ("a", "Z", "0", "r-1", "r_1-", "2026-11-29", "k3f9x2-261129", "con1", "com10", "a" * 128)
_PATTERN: Final = ("", ".", "..", "-x", "_x", "a/b", "../r1", "a\\b", "a.b", "a b", "a:b", "a\n", "a\0", "é", "٣", "ſ")
_DEVICES: Final = ("con", "CON", "Prn", "aux", "nul", "com1", "COM9", "lpt1", "LPT9")
_MANY: Final = 16
_ROUNDS: Final = 5


@case()
def a_birth_is_the_first_append(lab: RunStoreLab) -> None:
    """There is no moment at which a run exists without its first record."""
    store, hand = lab.store(), Hand()
    batch = hand.start(store)

    store.create(RUN, batch).close()

    expect((len(batch.data), [RUN]), (store.size_bytes(RUN), list(store.ids())), "size and ids of the store")
    expect(list(batch.records), read_all(lab.store().read(RUN))[0], "records of the run")
    expect(batch.data, lab.raw(RUN), "bytes of the journal")


@case()
def a_store_without_runs_is_only_asked(lab: RunStoreLab) -> None:
    """A program that lists the runs of a new place must neither fail nor make any."""
    store = lab.store()

    expect(([], None), (list(store.ids()), store.head(RUN)), "ids and head")
    expect(True, store.boundary in ("process_memory", "power_loss"), "boundary is one of the two words")
    expect(True, isinstance(store.locate(RUN), str), "place in words")


@case()
def a_legal_id_names_a_run(lab: RunStoreLab) -> None:
    """The user's own ids are as good as ours, up to the longest."""
    store = lab.store()

    for run_id in _LEGAL:
        store.create(run_id, Hand(run_id).start(store)).close()

    expect(sorted(_LEGAL), sorted(lab.store().ids()), "ids of the store")
    for run_id in _LEGAL:
        expect(run_id, read_all(store.read(run_id))[0][0].run_id, "run of the record")


def _begins_nothing(*ids: str) -> Callable[[RunStoreLab], None]:
    def deed(lab: RunStoreLab) -> None:
        store = lab.store()
        batch = Hand().start(store)
        for run_id in ids:
            refused(UsageError, "invalid_run_id", partial(store.create, run_id, batch), f"the id is {run_id!r}")
        expect([], list(lab.store().ids()), "ids of the store")

    return deed


an_id_outside_the_pattern_begins_nothing: Case[RunStoreLab] = Case(
    "an_id_outside_the_pattern_begins_nothing",
    "An id is the only thing a path is made of.",
    _begins_nothing(*_PATTERN),
    (18,),
)
an_id_that_is_too_long_begins_nothing: Case[RunStoreLab] = Case(
    "an_id_that_is_too_long_begins_nothing",
    "128 characters and an ending are what every file system takes.",
    _begins_nothing("a" * 129, "a" * 4000),
)
a_device_of_windows_begins_nothing: Case[RunStoreLab] = Case(
    "a_device_of_windows_begins_nothing",
    "A home that is moved to Windows must open there.",
    _begins_nothing(*_DEVICES),
)


@case()
def an_id_is_given_once_whatever_its_case(lab: RunStoreLab) -> None:
    """Where case is ignored both would be one file."""
    born(lab, "Run-1")[0].close()
    store, before = lab.store(), read_all(lab.store().read("Run-1"))

    for run_id in ("Run-1", "run-1", "RUN-1"):
        refused(Refused, "run_id_conflict", partial(_create, store, run_id), f"{run_id!r} is taken")

    expect((["Run-1"], before), (list(store.ids()), read_all(store.read("Run-1"))), "ids and records")


@case()
def a_living_run_is_not_begun_again(lab: RunStoreLab) -> None:
    """The second beginning would cut the ground from under its writer."""
    writer, hand = born(lab)
    before = lab.raw(RUN)

    refused(Refused, "run_id_conflict", lambda: _create(lab.store(), RUN), "the run is being written")

    batch = hand.batch({"n": 1})
    writer.append(batch)
    writer.close()
    expect(before + batch.data, lab.raw(RUN), "bytes of the journal")


@case()
def a_damaged_journal_is_not_replaced(lab: RunStoreLab) -> None:
    """What is there may be all that is left of a run, be it torn, corrupt or empty."""
    for number, data in enumerate((b"", b"not a journal\n", sample().data[:-9])):
        run_id = f"r{number}"
        lab.implant(run_id, data)
        refused(Refused, "run_id_conflict", partial(_create, lab.store(), run_id), f"{data[:20]!r} is there")
        expect(data, lab.raw(run_id), "bytes of the journal")


@case()
def of_births_that_collide_one_succeeds(lab: RunStoreLab) -> None:
    """Each run has one first leg, everybody else is told so, and the winner holds it."""
    for number in range(_ROUNDS):
        _collide(lab, [f"r{number}"])


@case()
def of_births_that_differ_by_case_alone_one_succeeds(lab: RunStoreLab) -> None:
    """A copy of the home to a system that ignores case would make one file of two runs."""
    for number in range(_ROUNDS):
        _collide(lab, [f"r{number}", f"R{number}"])


def _collide(lab: RunStoreLab, spellings: list[str]) -> None:
    stores = [lab.store() for _ in range(_MANY)]
    ids = [spellings[number % len(spellings)] for number in range(_MANY)]
    batches = [
        Hand(run_id).start(store, f"n{number}") for number, (run_id, store) in enumerate(zip(ids, stores, strict=True))
    ]
    together = Barrier(_MANY)

    with in_small_steps(), ThreadPoolExecutor(_MANY) as threads:
        ended = list(threads.map(partial(_born_or_refused, together), stores, batches))

    won = [(writer, batch) for writer, batch in zip(ended, batches, strict=True) if writer is not None]
    expect(1, len(won), "births that succeeded")
    run_id = won[0][1].run_id
    expect(list(won[0][1].records), read_all(lab.store().read(run_id))[0], "records of the run")
    hand = Hand(run_id, won[0][1].last, won[0][1].chain)
    won[0][0].append(hand.batch({"n": 1}))
    won[0][0].close()
    expect([1, 2], told(lambda: lab.store().read(run_id))[0], "records behind the winner's next append")


@case()
def an_interrupted_birth_leaves_a_whole_run_or_none(lab: RunStoreLab) -> None:
    """Ctrl-C has no good moment, and half a first record could never be repaired."""
    store, strikes, struck, number = lab.store(), Strikes(KeyboardInterrupt), "", 0
    while struck != "spared":
        number += 1
        run_id = f"r{number}"
        batch = Hand(run_id).start(store)

        struck = strikes.strike(partial(_begin, store, run_id, batch))

        expect(True, _found(lab, run_id) in ([], [*batch.records]), "none or all records after an interrupt")
    expect(1, len(_found(lab, f"r{number}")), "records of a birth that was spared")


@case()
def a_failed_birth_leaves_a_whole_run_or_none(lab: RunStoreLab) -> None:
    """A disk that is full when a run begins must not leave a journal that nobody can read."""
    store = lab.store()
    steps: tuple[tuple[str, Step], ...] = (("r1", "write"), ("r2", "sync"))
    for run_id, step in steps:
        batch = Hand(run_id).start(store)
        with lab.fail(step):
            ended = _end_of(partial(_begin, store, run_id, batch))
        expect("Storage", ended, f"error of a birth whose {step} failed")
        expect(True, _found(lab, run_id) in ([], [*batch.records]), f"none or all records after a failed {step}")


@case()
def an_unknown_run_is_said_so_by_every_door(lab: RunStoreLab) -> None:
    """One code, so that a program asks once; a path is never built from what was typed."""
    born(lab)[0].close()
    store = lab.store()
    for run_id in ("nobody", "", "../r1", "r1.jsonl", "a" * 129, "con"):
        for door in _doors(store, run_id):
            refused(NotFound, "unknown_run", door, f"the run is {run_id!r}")
        expect(None, store.head(run_id), f"head of {run_id!r}")
    expect([RUN], list(store.ids()), "ids of the store")


@case()
def an_empty_journal_is_no_run(lab: RunStoreLab) -> None:
    """A journal is born with its first append, so an empty one tells of nothing that ever began."""
    lab.implant(RUN, b"")

    for door in (lambda: lab.store().read(RUN), lambda: lab.store().open(RUN)):
        refused(NotFound, "unknown_run", door, "its journal is empty")


def _doors(store: RunStore, run_id: str) -> list[Callable[[], object]]:
    return [
        lambda: store.open(run_id),
        lambda: store.read(run_id),
        lambda: store.size_bytes(run_id),
        lambda: store.record_at(run_id, 0),
        lambda: store.pending(run_id),
        lambda: store.post(Command(1, "c1", run_id, "pause", "ann", "lunch")),
        lambda: store.answered(run_id, "c1"),
    ]


def _create(store: RunStore, run_id: str) -> RunWriter:
    return store.create(run_id, Hand(run_id).start(store))


def _found(lab: RunStoreLab, run_id: str) -> list[Record]:
    """The records of a run, none where there is no such run."""
    try:
        return read_all(lab.store().read(run_id))[0]
    except NotFound:
        return []


def _begin(store: RunStore, run_id: str, batch: Batch) -> None:
    store.create(run_id, batch).close()


def _end_of(deed: Callable[[], object]) -> str:
    """The name of the error that it ended with; of a birth that was never synced there is none."""
    try:
        deed()
    except Exception as error:  # noqa: BLE001  # which error it is, is what is asked
        return type(error).__name__
    return "none"


def _born_or_refused(together: Barrier, store: RunStore, batch: Batch) -> RunWriter | None:
    together.wait()
    try:
        return store.create(batch.run_id, batch)
    except Refused as error:
        expect("run_id_conflict", error.code, "code of a birth that came too late")
        return None


CASES: Final = cases_of(globals())
