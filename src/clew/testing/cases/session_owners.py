"""One writer at a time, and only on the session that it opened. What it writes is not here."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import Final

from clew.errors import Held, Storage
from clew.stores.base import SessionWriter
from clew.testing.faults import in_small_steps
from clew.testing.kit import case, cases_of, expect, refused
from clew.testing.sessionlab import SESSION, SessionStoreLab, header, line, read_all

_LOOKS: Final = 400
_WAIT_S: Final = 60.0

_HOLDER: Final = """
from clew.testing.sessionlab import SESSION, header, line
writer = store.create(SESSION, header())
writer.append(line(1))
print("acknowledged", flush=True)
input()
"""


@case(186)
def a_held_session_is_refused_and_names_its_holder(lab: SessionStoreLab) -> None:
    """Two runs that write one conversation at once would fork it; the lock is never taken from who has it."""
    writer = lab.store().create(SESSION, header())

    error = refused(
        Held, "session_open_locked", lambda: lab.store().open(SESSION, wait_s=0.05), "another has the session"
    )

    owner = error.facts.get("owner")
    expect(True, owner is None or owner.get("pid") == os.getpid(), "who is named is who has it, or nobody is named")
    writer.append(line(1))
    writer.close()
    expect(header() + line(1), read_all(lab.store()), "bytes of the session")


@case()
def an_opener_waits_for_a_closing_writer(lab: SessionStoreLab) -> None:
    """A second run comes in while the first one is ending, and both are heard."""
    writer, begun = lab.store().create(SESSION, header()), Event()

    with in_small_steps(), ThreadPoolExecutor(1) as thread:
        opening = thread.submit(_open_when, begun, lab)
        begun.wait()
        looks = [read_all(lab.store()) for _ in range(_LOOKS)]
        waits = not opening.done()
        writer.append(line(1))
        writer.close()
        heir = opening.result()

    expect((_LOOKS, True), (len(looks), waits), "looks while the opener waits, and whether it does")
    heir.append(line(2))
    heir.close()
    expect(header() + line(1) + line(2), read_all(lab.store()), "bytes of the session")


def _open_when(begun: Event, lab: SessionStoreLab) -> SessionWriter:
    begun.set()
    return lab.store().open(SESSION, wait_s=_WAIT_S)


@case(182)
def who_opens_next_sees_what_was_written_before(lab: SessionStoreLab) -> None:
    """What a writer knows of a session it read under its own lock, never under an earlier one."""
    first = lab.store().create(SESSION, header())
    first.append(line(1))
    first.close()

    second = lab.store().open(SESSION, wait_s=0.0)

    expect(header() + line(1), b"".join(second.read()), "bytes that the second writer reads")
    second.close()


def _stops(lab: SessionStoreLab, there: bytes | None) -> None:
    writer = lab.store().create(SESSION, header())
    lab.implant(SESSION, there)

    refused(Storage, "session_replaced", partial(writer.append, line(1)), "the session is another one now")

    expect(True, writer.poisoned, "whether the writer is poisoned")
    writer.close()
    expect([] if there is None else [SESSION], list(lab.store().ids()), "ids of the store")
    if there is not None:
        expect(there, lab.raw(), "bytes of the session")


@case()
def a_session_that_was_deleted_stops_its_writer(lab: SessionStoreLab) -> None:
    """An append that makes it anew leaves a session without a header, and ends as if nothing had been."""
    _stops(lab, None)


@case(188)
def a_session_that_was_replaced_stops_its_writer(lab: SessionStoreLab) -> None:
    """A restored backup of the same length is another conversation, also when its bytes are the same."""
    _stops(lab, header())


@case()
def a_session_that_was_replaced_is_neither_cut_nor_migrated(lab: SessionStoreLab) -> None:
    """The same guard stands before every change."""
    data = header() + line(1)
    lab.implant(SESSION, data)
    for change in ("cut", "renew"):
        writer = lab.store().open(SESSION, wait_s=0.0)
        lab.implant(SESSION, data)
        deed = partial(writer.cut, len(header())) if change == "cut" else partial(writer.renew, [header()])

        refused(Storage, "session_replaced", deed, f"{change} of what is another session now")

        writer.close()
        expect(data, lab.raw(), "bytes of the session")


@case()
def another_process_holds_until_it_is_killed(lab: SessionStoreLab) -> None:
    """Exclusion ends with the process and not before, needs no person, and what was acknowledged is there."""
    with lab.process(_HOLDER) as process:
        said = process.stdout.readline().strip() if process.stdout else ""
        expect("acknowledged", said, "what the other process said")
        error = refused(Held, "session_open_locked", lambda: lab.store().open(SESSION, wait_s=0.0), "another has it")
        owner = error.facts.get("owner")
        expect(True, owner is None or owner.get("pid") == process.pid, "who is named is who has it, or nobody is named")
        process.kill()
        process.wait()

    heir = lab.store().open(SESSION, wait_s=_WAIT_S)

    expect(header() + line(1), b"".join(heir.read()), "bytes that were acknowledged")
    heir.append(line(2))
    heir.close()


CASES: Final = cases_of(globals())
