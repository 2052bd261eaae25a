"""How a session begins, and which ids it may have. What happens to one that has begun is in the other modules."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Final

from clew.errors import NotFound, Refused, Storage, UsageError
from clew.stores.base import SessionStore
from clew.testing.faults import Strikes, in_small_steps
from clew.testing.kit import Case, case, cases_of, expect, refused
from clew.testing.sessionlab import SESSION, SessionStoreLab, header, line, read_all

_LEGAL: Final = ("a", "Z", "0", "s-1", "s_1-", "2026-11-29", "01JD4KQ7Z8", "con1", "a" * 128)
_ILLEGAL: Final = (
    "", ".", "..", "-x", "_x", "a/b", "../s1", "a\\b", "a.b", "a b", "a:b", "a\n", "a\0", "é", "con", "NUL", "a" * 129,
)  # fmt: skip
_MANY: Final = 8
_ROUNDS: Final = 4


@case(177)
def a_session_is_born_with_its_first_lines(lab: SessionStoreLab) -> None:
    """There is no moment at which a session exists without its header."""
    store, data = lab.store(), header() + line(1)

    writer = store.create(SESSION, data)

    expect((len(data), False), (writer.size_bytes, writer.poisoned), "length, and whether the writer is poisoned")
    expect(([SESSION], len(data)), (list(store.ids()), store.size_bytes(SESSION)), "ids and size of the store")
    writer.close()
    expect(data, read_all(lab.store()), "bytes of the session")


@case(178)
def an_empty_session_that_is_opened_again_is_empty(lab: SessionStoreLab) -> None:
    """Who opens a session adds nothing to it by that alone."""
    lab.store().create(SESSION, header()).close()

    lab.store().open(SESSION).close()

    expect(header(), read_all(lab.store()), "bytes of the session")


@case()
def a_store_without_sessions_is_only_asked(lab: SessionStoreLab) -> None:
    """A program that lists the sessions of a new place must neither fail nor make any."""
    store = lab.store()

    expect([], list(store.ids()), "ids")
    expect(True, store.boundary in ("process_memory", "power_loss"), "boundary is one of the two words")
    expect(True, isinstance(store.locate(SESSION), str), "place in words")


@case(179)
def a_legal_id_names_a_session(lab: SessionStoreLab) -> None:
    """The user's own ids are as good as ours, up to the longest."""
    store = lab.store()

    for session_id in _LEGAL:
        store.create(session_id, header(session_id)).close()

    expect(sorted(_LEGAL), sorted(lab.store().ids()), "ids of the store")
    for session_id in _LEGAL:
        expect(header(session_id), read_all(store, session_id), f"bytes of {session_id!r}")


@case(179)
def an_id_outside_the_pattern_is_refused_at_every_door(lab: SessionStoreLab) -> None:
    """An id is the only thing a path is made of, so not even a look may be taken at another one."""
    store = lab.store()

    for session_id in _ILLEGAL:
        doors = (partial(store.create, session_id, header()), partial(store.open, session_id, wait_s=0.0))
        for door in (*doors, partial(_read, store, session_id), partial(store.size_bytes, session_id)):
            refused(UsageError, "invalid_session_id", door, f"the id is {session_id!r}")

    expect([], list(lab.store().ids()), "ids of the store")


@case()
def an_unknown_session_is_said_so_by_every_door(lab: SessionStoreLab) -> None:
    """Nothing is made by asking for it."""
    store = lab.store()
    store.create("s2", header("s2")).close()

    for door in (
        partial(store.open, SESSION, wait_s=0.0),
        partial(_read, store, SESSION),
        partial(store.size_bytes, SESSION),
    ):
        refused(NotFound, "unknown_session", door, "there is no such session")

    expect(["s2"], list(store.ids()), "ids of the store")


@case(182)
def an_id_is_given_once_whatever_its_case(lab: SessionStoreLab) -> None:
    """Where case is ignored both would be one file, and the first conversation would be gone."""
    lab.store().create("Talk", header("Talk")).close()

    for session_id in ("Talk", "talk", "TALK"):
        create = partial(lab.store().create, session_id, header(session_id))
        refused(Refused, "session_id_conflict", create, f"{session_id!r} is taken")

    expect((["Talk"], header("Talk")), (list(lab.store().ids()), read_all(lab.store(), "Talk")), "ids and bytes")


@case(182)
def of_births_that_collide_one_succeeds(lab: SessionStoreLab) -> None:
    """Exactly one session is new and one exists; everybody else is told so and opens it."""
    for number in range(_ROUNDS):
        _collide(lab, [f"s{number}"])


@case()
def of_births_that_differ_by_case_alone_one_succeeds(lab: SessionStoreLab) -> None:
    """Two that look at the same moment must not both find the name free."""
    for number in range(_ROUNDS):
        _collide(lab, [f"Talk{number}", f"talk{number}", f"TALK{number}"])


def _collide(lab: SessionStoreLab, ids: list[str]) -> None:
    together, before = Barrier(_MANY), set(lab.store().ids())

    def begin(number: int) -> str:
        session_id, store = ids[number % len(ids)], lab.store()
        together.wait()
        try:
            store.create(session_id, header(session_id)).close()
        except Refused as error:
            return error.code
        return session_id

    with in_small_steps(), ThreadPoolExecutor(_MANY) as threads:
        said = list(threads.map(begin, range(_MANY)))

    born = [each for each in said if each != "session_id_conflict"]
    expect(1, len(born), "births that succeeded")
    expect(set(born), set(lab.store().ids()) - before, "sessions that are new")


@case(193)
def what_is_there_is_not_begun_anew(lab: SessionStoreLab) -> None:
    """It may be all that is left of a conversation, be it torn, foreign, empty or no session at all."""
    for number, data in enumerate((b"", b"not a session\n", header()[:-9], b'{"type":"session","version":3}\n')):
        session_id = f"s{number}"
        lab.implant(session_id, data)
        create = partial(lab.store().create, session_id, header(session_id))
        refused(Refused, "session_id_conflict", create, f"{data[:20]!r} is there")
        expect(data, lab.raw(session_id), "bytes of the session")


def _failed_birth(step: str, lab: SessionStoreLab) -> None:
    store, data = lab.store(), header() + line(1)

    with lab.fail("write" if step == "write" else "sync"):
        try:
            store.create(SESSION, data)
        except Storage:
            pass
        else:
            expect("a refusal", "a birth", f"what comes of a {step} that fails")

    _whole_or_none(lab, data)


a_birth_whose_write_fails_leaves_a_whole_session_or_none: Case[SessionStoreLab] = Case(
    "a_birth_whose_write_fails_leaves_a_whole_session_or_none",
    "Half a header is a session that nobody can open again.",
    partial(_failed_birth, "write"),
)
a_birth_whose_sync_fails_leaves_a_whole_session_or_none: Case[SessionStoreLab] = Case(
    "a_birth_whose_sync_fails_leaves_a_whole_session_or_none",
    "What was not synced was not promised, and must not be half there.",
    partial(_failed_birth, "sync"),
)


@case()
def an_interrupted_birth_leaves_a_whole_session_or_none(lab: SessionStoreLab) -> None:
    """Ctrl-C comes between any two lines of a store."""
    strikes, data = Strikes(KeyboardInterrupt), header() + line(1)
    for number in range(2000):
        session_id = f"s{number}"
        end = strikes.strike(partial(_create_and_close, lab, session_id, data))
        _whole_or_none(lab, data, session_id)
        if end == "spared":
            return
    expect("an end", "ever new lines", "lines of a birth")


def _create_and_close(lab: SessionStoreLab, session_id: str, data: bytes) -> None:
    lab.store().create(session_id, data).close()


def _whole_or_none(lab: SessionStoreLab, data: bytes, session_id: str = SESSION) -> None:
    """A session that is there is whole; one that is not can be begun."""
    if session_id in lab.store().ids():
        expect(data, read_all(lab.store(), session_id), "bytes of the session")
    else:
        lab.store().create(session_id, data).close()


def _read(store: SessionStore, session_id: str) -> bytes:
    return read_all(store, session_id)


CASES: Final = cases_of(globals())
