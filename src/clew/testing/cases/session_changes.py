"""The three ways in which a session changes that are no append: an end is cut, a copy is kept, all is replaced."""

import hashlib
from collections.abc import Iterator
from functools import partial
from typing import Final

from clew.errors import Held, Refused, Storage
from clew.testing.kit import Case, case, cases_of, expect, refused
from clew.testing.lab import Step
from clew.testing.sessionlab import SESSION, SessionStoreLab, header, line, read_all

_OLD: Final = b'{"type":"session","version":3,"id":"s1"}\n{"type":"message","id":"a"}\r\n\xff\n'


@case()
def a_cut_end_is_kept_beside_the_session(lab: SessionStoreLab) -> None:
    """Nobody was told that these bytes are there, and yet they may be all that is left of an answer."""
    torn = line(2)[:-9]
    lab.implant(SESSION, header() + line(1) + torn)
    writer, at = lab.store().open(SESSION), len(header() + line(1))

    kept = writer.cut(at)

    sha256 = hashlib.sha256(torn).hexdigest()
    expect(
        (f"{SESSION}.torn-{at}-{sha256[:12]}", len(torn), sha256), (kept.name, kept.bytes, kept.sha256), "what is said"
    )
    expect(torn, lab.kept(kept.name), "bytes that are kept")
    expect((at, header() + line(1)), (writer.size_bytes, read_all(lab.store())), "what is left")
    writer.append(line(2))
    writer.close()
    expect(header() + line(1) + line(2), lab.raw(), "bytes behind the next append")


@case()
def a_cut_that_was_interrupted_is_done_again(lab: SessionStoreLab) -> None:
    """Between keeping and cutting a process may die: the same end is then cut once more."""
    torn, at = line(2)[:-9], len(header() + line(1))
    names = set[str]()
    for _ in range(2):
        lab.implant(SESSION, header() + line(1) + torn)
        writer = lab.store().open(SESSION)
        names.add(writer.cut(at).name)
        writer.close()

    expect(1, len(names), "names under which it was kept")
    expect(torn, lab.kept(names.pop()), "bytes that are kept")


def _failed_cut(step: Step, lab: SessionStoreLab) -> None:
    data, at = header() + line(1) + line(2)[:-9], len(header() + line(1))
    lab.implant(SESSION, data)
    writer = lab.store().open(SESSION)

    with lab.fail(step):
        try:
            writer.cut(at)
        except Storage:
            expect(True, writer.poisoned, "whether the writer is poisoned")

    writer.close()
    left = lab.raw()
    expect(True, left in (data, data[:at]), "all is there, or the cut was done")
    if left != data:
        name = f"{SESSION}.torn-{at}-{hashlib.sha256(data[at:]).hexdigest()[:12]}"
        expect(data[at:], lab.kept(name), "bytes that are kept")


a_cut_whose_write_fails_loses_nothing: Case[SessionStoreLab] = Case(
    "a_cut_whose_write_fails_loses_nothing",
    "The bytes are kept before they are cut, or not cut.",
    partial(_failed_cut, "write"),
)
a_cut_whose_sync_fails_loses_nothing: Case[SessionStoreLab] = Case(
    "a_cut_whose_sync_fails_loses_nothing",
    "A copy that may vanish in a power cut is none.",
    partial(_failed_cut, "sync"),
)


@case(190)
def a_backup_holds_every_byte(lab: SessionStoreLab) -> None:
    """Also those that are no text: it is what a person goes back to when all else was wrong."""
    lab.implant(SESSION, _OLD)
    writer = lab.store().open(SESSION)

    kept = [writer.back_up(3), writer.back_up(3)]

    sha256 = hashlib.sha256(_OLD).hexdigest()
    expect(
        {(f"{SESSION}.jsonl.v3.backup", len(_OLD), sha256)}, {(k.name, k.bytes, k.sha256) for k in kept}, "what is said"
    )
    expect((_OLD, _OLD), (lab.kept(kept[0].name), lab.raw()), "bytes of the backup, and of the session")
    expect((False, [SESSION]), (writer.poisoned, list(lab.store().ids())), "writer, and ids of the store")
    writer.close()


@case(195)
def a_backup_of_other_bytes_is_never_replaced(lab: SessionStoreLab) -> None:
    """It may be the only copy of a conversation that somebody migrated before."""
    lab.implant(SESSION, _OLD)
    first = lab.store().open(SESSION)
    name = first.back_up(3).name
    first.close()
    lab.implant(SESSION, _OLD + b"{}\n")
    second = lab.store().open(SESSION)

    refused(Refused, "session_migration_conflict", partial(second.back_up, 3), "another backup is there")

    expect((_OLD, _OLD + b"{}\n"), (lab.kept(name), lab.raw()), "bytes of the backup, and of the session")
    expect((f"{SESSION}.jsonl.v2.backup"), second.back_up(2).name, "name of a backup of another version")
    second.close()


def _failed_backup(step: Step, lab: SessionStoreLab) -> None:
    lab.implant(SESSION, _OLD)
    writer = lab.store().open(SESSION)

    with lab.fail(step):
        try:
            writer.back_up(3)
        except Storage:
            pass
        else:
            expect("a refusal", "a backup", f"what comes of a {step} that fails")

    writer.close()
    expect(_OLD, lab.raw(), "bytes of the session")
    expect(True, lab.kept(f"{SESSION}.jsonl.v3.backup") in (None, _OLD), "no backup is there, or a whole one")
    again = lab.store().open(SESSION)
    again.back_up(3)
    again.close()


a_backup_whose_write_fails_is_made_at_the_next_try: Case[SessionStoreLab] = Case(
    "a_backup_whose_write_fails_is_made_at_the_next_try",
    "Half a backup under its name would be a conflict for ever.",
    partial(_failed_backup, "write"),
)
a_backup_whose_sync_fails_is_made_at_the_next_try: Case[SessionStoreLab] = Case(
    "a_backup_whose_sync_fails_is_made_at_the_next_try",
    "What was not synced is no backup yet.",
    partial(_failed_backup, "sync"),
)


@case(191)
def a_replaced_session_is_the_new_one_for_everyone(lab: SessionStoreLab) -> None:
    """The public name never leads to nothing, and its writer goes on behind the new lines, still alone."""
    lab.implant(SESSION, _OLD)
    writer = lab.store().open(SESSION)
    before = iter(lab.store().read(SESSION))

    writer.renew(iter([header(), line(1)]))

    expect(header() + line(1), read_all(lab.store()), "bytes for who reads now")
    refused(Held, "session_open_locked", lambda: lab.store().open(SESSION, wait_s=0.0), "the writer goes on")
    writer.append(line(2))
    expect(len(header() + line(1) + line(2)), writer.size_bytes, "length of the session")
    writer.close()
    expect(header() + line(1) + line(2), lab.raw(), "bytes of the session")
    lab.store().open(SESSION, wait_s=0.0).close()
    del before


@case()
def new_lines_may_be_made_from_the_old_ones(lab: SessionStoreLab) -> None:
    """A long conversation is migrated piece by piece, without ever being in memory."""
    lab.implant(SESSION, _OLD)
    writer = lab.store().open(SESSION)

    def loud() -> Iterator[bytes]:
        for piece in writer.read():
            yield piece.upper()

    writer.renew(loud())

    writer.close()
    expect(_OLD.upper(), lab.raw(), "bytes of the session")


def _failed_replace(step: Step, lab: SessionStoreLab) -> None:
    lab.implant(SESSION, _OLD)
    writer = lab.store().open(SESSION)

    with lab.fail(step):
        try:
            writer.renew([header(), line(1)])
        except Storage:
            pass
        else:
            expect("a refusal", "a replacement", f"what comes of a {step} that fails")

    expect(True, writer.poisoned, "whether the writer is poisoned")
    writer.close()
    expect(True, lab.raw() in (_OLD, header() + line(1)), "all of the old is there, or all of the new")
    lab.store().open(SESSION, wait_s=0.0).close()


a_replacement_whose_write_fails_leaves_the_old_or_the_new: Case[SessionStoreLab] = Case(
    "a_replacement_whose_write_fails_leaves_the_old_or_the_new",
    "A migration that breaks off in the middle leaves a conversation that can be opened.",
    partial(_failed_replace, "write"),
    (191,),
)
a_replacement_whose_sync_fails_leaves_the_old_or_the_new: Case[SessionStoreLab] = Case(
    "a_replacement_whose_sync_fails_leaves_the_old_or_the_new",
    "So does one whose disk refuses to say that it has the new bytes.",
    partial(_failed_replace, "sync"),
    (191,),
)


@case()
def a_source_that_fails_in_the_middle_replaces_nothing(lab: SessionStoreLab) -> None:
    """What makes the new lines may find in their middle that they cannot be made."""
    lab.implant(SESSION, _OLD)
    writer = lab.store().open(SESSION)

    def broken() -> "list[bytes]":
        raise ValueError("not a line")

    try:
        writer.renew(piece for _ in range(1) for piece in broken())
    except ValueError:
        pass
    else:
        expect("the error of the source", "a replacement", "what comes of it")

    writer.close()
    expect(_OLD, lab.raw(), "bytes of the session")


@case()
def what_is_kept_is_no_session(lab: SessionStoreLab) -> None:
    """A backup that is listed as a session would be migrated in its turn."""
    lab.implant(SESSION, _OLD)
    writer = lab.store().open(SESSION)
    writer.back_up(3)
    writer.cut(len(_OLD) - 2)
    writer.close()

    expect([SESSION], list(lab.store().ids()), "ids of the store")


CASES: Final = cases_of(globals())
