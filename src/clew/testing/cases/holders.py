"""One writer at a time: who holds a run, who is told so, who may be proved gone. What it writes is not here."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from threading import Barrier, Event
from typing import Final

from clew.errors import Held, Storage
from clew.stores.base import RunWriter
from clew.testing.faults import in_small_steps
from clew.testing.kit import case, cases_of, expect, refused
from clew.testing.storelab import RUN, TIME, Hand, RunStoreLab, born, go_on, read_all, told

_STORES: Final = 64
_TURNS: Final = 4
_LOOKS: Final = 200
_WAIT_S: Final = 60.0
_PROOFS: Final = ("kernel_lock", "local_file_system", "same_inode", "process_gone")


@case(31)
def a_held_run_is_refused_and_names_its_holder(lab: RunStoreLab) -> None:
    """The user must know which process to look for, since when, and whether it lives; the lock is never taken."""
    writer, hand = born(lab)
    here = lab.store().identity()

    error = refused(Held, "run_state_locked", lambda: lab.store().open(RUN, wait_s=0.05), "another writer has the run")

    owner = error.facts.get("owner") or {}
    expect((here["pid"], here["host"]), (owner.get("pid"), owner.get("host")), "process and host of the holder")
    expect((TIME, "alive"), (error.facts.get("since"), error.facts.get("state")), "since when, and its state")
    writer.append(hand.batch({"n": 1}))
    writer.close()
    expect([1, 2], told(lambda: lab.store().read(RUN))[0], "records of the holder")


@case(29)
def of_two_stores_that_append_the_same_number_one_does(lab: RunStoreLab) -> None:
    """Two writers never overwrite each other, and the journal holds 1 and 2."""
    born(lab)[0].close()
    stores = [lab.store(), lab.store()]

    first = stores[0].open(RUN, wait_s=0.0)
    hand = go_on(first)
    twin = Hand(RUN, hand.sequence, hand.chain)
    refused(Held, "run_state_locked", lambda: stores[1].open(RUN, wait_s=0.0), "the other store has the run")
    batch = hand.batch({"by": "first"})
    first.append(batch)
    first.close()
    second = stores[1].open(RUN, wait_s=0.0)
    go_on(second)

    refused(Storage, "run_state_conflict", lambda: second.append(twin.batch({"by": "second"})), "record 2 is there")

    second.close()
    expect([*batch.records], read_all(lab.store().read(RUN))[0][1:], "records behind the start")


@case(31)
def an_opener_waits_for_a_closing_writer(lab: RunStoreLab) -> None:
    """A second command comes in while the first one is ending, and both are done."""
    writer, _ = born(lab)
    begun = Event()

    with in_small_steps(), ThreadPoolExecutor(1) as thread:
        opening = thread.submit(_open_when, begun, lab)
        begun.wait()
        looks = [read_all(lab.store().read(RUN)) for _ in range(_LOOKS)]
        waits = not opening.done()
        writer.close()
        heir = opening.result()

    expect((_LOOKS, True), (len(looks), waits), "looks while the opener waits, and whether it does")
    expect(False, heir.poisoned, "whether the next writer is poisoned")
    heir.append(go_on(heir).batch({"n": 1}))
    heir.close()


def _open_when(begun: Event, lab: RunStoreLab) -> RunWriter:
    begun.set()
    return lab.store().open(RUN, wait_s=_WAIT_S)


@case(30)
def many_stores_on_one_run_all_finish(lab: RunStoreLab) -> None:
    """Readers and writers mixed, as a screen, a worker and a command are: all records are there, in one order."""
    born(lab)[0].close()

    together = Barrier(_STORES)
    with in_small_steps(), ThreadPoolExecutor(_STORES) as threads:
        done = list(threads.map(partial(_read_or_append, lab, together), range(_STORES)))

    records, tail = read_all(lab.store().read(RUN))
    appended = [record.payload["n"] for record in records[1:]]
    expect([*range(_STORES)], done, "stores that finished")
    expect(sorted([*range(1, _STORES, 2)] * _TURNS), sorted(appended), "what the writers appended")
    expect("clean", tail.verdict, "end of the journal")


def _read_or_append(lab: RunStoreLab, together: Barrier, number: int) -> int:
    store = lab.store()
    together.wait()
    for _ in range(_TURNS):
        if number % 2 == 0:
            read_all(store.read(RUN))
            continue
        writer = store.open(RUN, wait_s=_WAIT_S)
        writer.append(go_on(writer).batch({"n": number}))
        writer.close()
    return number


@case()
def a_journal_that_somebody_else_changed_stops_its_writer(lab: RunStoreLab) -> None:
    """What is appended behind bytes that it does not know would be lost, or would make them corrupt."""
    for number, change in enumerate((b'{"version":1,', b"\n")):
        writer, hand = born(lab, f"r{number}")
        changed = lab.raw(writer.run_id) + change
        lab.implant(writer.run_id, changed)
        append = partial(writer.append, hand.batch({"n": 1}), starts_effect=True)

        refused(Storage, "journal_replaced", append, "the journal has grown under its writer")

        expect((changed, True), (lab.raw(writer.run_id), writer.poisoned), "bytes, and whether the writer is poisoned")
        writer.close()


@case()
def a_living_owner_is_not_proved_gone(lab: RunStoreLab) -> None:
    """Whoever holds the lock sees four answers, in one order for every store."""
    writer, _ = born(lab)
    owner = {**lab.store().identity(), "nonce": "n1"}

    proofs = writer.prove(owner)

    expect(_PROOFS, tuple(proof.proof for proof in proofs), "names of the proofs")
    expect(("yes", "no"), (proofs[0].answer, proofs[3].answer), "the lock is ours, and the process is not gone")
    expect("alive", lab.store().owner_state(owner), "state of the owner without a lock")
    writer.close()


@case()
def an_owner_of_an_earlier_boot_is_proved_gone(lab: RunStoreLab) -> None:
    """All its processes ended with it."""
    writer, _ = born(lab)
    owner = {**lab.store().identity(), "bootId": "another", "nonce": "n0"}

    answer = writer.prove(owner)[3].answer

    writer.close()
    expect(("yes", "gone"), (answer, lab.store().owner_state(owner)), "proof, and state without a lock")


@case()
def an_owner_elsewhere_cannot_be_told(lab: RunStoreLab) -> None:
    """A stale lock is not guessed away: it needs a person."""
    writer, _ = born(lab)
    for owner in ({**lab.store().identity(), "host": "another", "nonce": "n0"}, {}, {"pid": "7"}):
        answer = writer.prove(owner)[3].answer
        expect(("cannot_tell", "elsewhere"), (answer, lab.store().owner_state(owner)), f"what is said of {owner}")
    writer.close()


# ------------------------------------------------------------------------------------------------------- real processes

_HOLDER: Final = """
from clew.testing.storelab import RUN, Hand
hand = Hand()
writer = store.create(RUN, hand.start(store))
writer.append(hand.batch({"n": 1}))
print("acknowledged", flush=True)
input()
"""
_CREATOR: Final = """
from clew.errors import Refused
from clew.testing.storelab import Hand
print("ready", flush=True)
input()
for n in range(20):
    try:
        store.create(f"r{n}", Hand(f"r{n}").start(store)).close()
        print(n, end=" ")
    except Refused as error:
        assert error.code == "run_id_conflict"
print(flush=True)
"""


def _line(process: "subprocess.Popen[str]") -> str:
    return (process.stdout.readline() if process.stdout else "").strip()


@case(51)
def another_process_holds_until_it_is_killed_and_is_then_proved_gone(lab: RunStoreLab) -> None:
    """Exclusion is the kernel's: it ends with the process and not before, and what was acknowledged is there."""
    with lab.process(_HOLDER) as process:
        expect("acknowledged", _line(process), "what the other process said")
        error = refused(Held, "run_state_locked", lambda: lab.store().open(RUN, wait_s=0.0), "another process has it")
        owner = error.facts.get("owner") or {}
        expect((process.pid, "alive"), (owner.get("pid"), error.facts.get("state")), "pid and state of the holder")
        process.kill()
        process.wait()

    heir = lab.store().open(RUN, wait_s=_WAIT_S)

    answers = "gone", "yes"
    expect(answers, (lab.store().owner_state(owner), heir.prove(owner)[3].answer), "what is said of the dead owner")
    expect([1, 2], [record.sequence for record in read_all(heir.read())[0]], "records that were acknowledged")
    heir.append(go_on(heir).batch({"n": 2}))
    heir.close()


@case()
def of_two_processes_that_begin_a_run_one_does(lab: RunStoreLab) -> None:
    """No lock of one process can settle this."""
    with ExitStack() as stack:
        processes = [stack.enter_context(lab.process(_CREATOR)) for _ in range(2)]
        expect(["ready", "ready"], [_line(process) for process in processes], "what the other processes said")
        for process in processes:
            print("go", file=process.stdin, flush=True)
        won = [_line(process).split() for process in processes]

    expect(sorted(map(str, range(20))), sorted([*won[0], *won[1]]), "runs that one of them began")
    for n in range(20):
        expect(([1], "clean"), told(partial(lab.store().read, f"r{n}"))[:2], f"journal of r{n}")


CASES: Final = cases_of(globals())
