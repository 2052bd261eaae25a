"""Every store, every case: what the runtime may rely on, whatever keeps the bytes."""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.chain import genesis
from clew.core.records import Batch
from clew.errors import ClewError, Corrupt, Held, NotFound, Refused, Storage, UsageError
from clew.stores.base import BlobStore, Command, CommandAnswer, RunWriter, TailRepaired
from clew.stores.blobs import FileBlobStore
from clew.stores.memory import MemoryBlobStore
from tests.core.journals import EXAMPLES, sample
from tests.stores.lab import TIME, FileLab, Hand, Lab, MemoryLab, go_on, read_all, verdict


@pytest.fixture(params=["memory", "files"])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    return MemoryLab() if request.param == "memory" else FileLab(tmp_path)


@pytest.fixture
def hand() -> Hand:
    return Hand()


@pytest.fixture
def writer(lab: Lab, hand: Hand) -> Iterator[RunWriter]:
    writer = lab.store.create("r1", hand.start(lab.store))
    yield writer
    writer.close()


def code_of(deed: Callable[[], object], family: type[ClewError]) -> str:
    with pytest.raises(family) as caught:
        deed()
    return caught.value.code


# ------------------------------------------------------------------------------------------------------ birth and lock


def test_a_born_journal_is_its_first_append(lab: Lab, hand: Hand) -> None:
    """There is no moment at which a run exists without its first record."""
    batch = hand.start(lab.store)

    lab.store.create("r1", batch).close()

    assert (lab.raw("r1"), list(lab.store.ids()), lab.store.size_bytes("r1")) == (batch.data, ["r1"], len(batch.data))


@pytest.mark.parametrize("run_id", ["r1", "R1"])
def test_an_id_is_given_once_whatever_its_case(lab: Lab, writer: RunWriter, run_id: str) -> None:
    """On a disk that ignores case both would be one file."""
    before = lab.raw("r1")

    code = code_of(lambda: lab.store.create(run_id, Hand(run_id).start(lab.store)), Refused)

    assert (code, lab.raw("r1"), list(lab.store.ids())) == ("run_id_conflict", before, ["r1"])


@pytest.mark.parametrize("run_id", ["", "..", "a/b", "con", "a" * 129, "-x"])
def test_an_id_that_no_file_may_have_begins_nothing(lab: Lab, run_id: str) -> None:
    """An id is the only thing a path is made of."""
    code = code_of(lambda: lab.store.create(run_id, Hand("r1").start(lab.store)), UsageError)

    assert (code, list(lab.store.ids())) == ("invalid_run_id", [])


@pytest.mark.parametrize("run_id", ["nobody", "../r1", "r1.jsonl", ""])
def test_an_unknown_run_is_said_so_by_every_door(lab: Lab, writer: RunWriter, run_id: str) -> None:
    """One code, so that a program asks once; a path is never built from what was typed."""
    store = lab.store
    command = Command(1, "c1", run_id, "pause", "ann", "lunch")
    doors: list[Callable[[], object]] = [
        lambda: store.open(run_id),
        lambda: store.read(run_id),
        lambda: store.size_bytes(run_id),
        lambda: store.record_at(run_id, 0),
        lambda: store.pending(run_id),
        lambda: store.post(command),
        lambda: store.answered(run_id, "c1"),
    ]

    codes = {code_of(door, NotFound) for door in doors}

    assert (codes, store.head(run_id)) == ({"unknown_run"}, None)


def test_an_empty_journal_is_no_run(lab: Lab) -> None:
    """A journal is born with its first append, so an empty one tells of nothing that ever began."""
    lab.implant("r1", b"")

    codes = [code_of(lambda: lab.store.read("r1"), NotFound), code_of(lambda: lab.store.open("r1"), NotFound)]

    assert codes == ["unknown_run", "unknown_run"]


def test_a_held_run_names_its_holder(lab: Lab, writer: RunWriter) -> None:
    """The user must know which process to look for, since when, and whether it lives."""
    with pytest.raises(Held) as caught:
        lab.store.open("r1", wait_s=0.0)

    facts, here = caught.value.facts, lab.store.identity()
    assert (caught.value.code, facts["owner"]["pid"], facts["owner"]["host"]) == (
        "run_state_locked",
        here["pid"],
        here["host"],
    )
    assert (facts["since"], facts["state"]) == (TIME, "alive")


def test_a_closed_writer_lets_the_next_one_in(lab: Lab, writer: RunWriter) -> None:
    """Also when it is closed twice."""
    writer.close()
    writer.close()

    again = lab.store.open("r1", wait_s=0.0)

    assert again.size_bytes == len(lab.raw("r1"))
    again.close()


# ------------------------------------------------------------------------------------------------------------- appends


def test_appends_are_read_as_they_were_written(lab: Lab, writer: RunWriter, hand: Hand) -> None:
    """Order is the order in the file, and each record is found again by its position."""
    batches = [hand.batch({"n": 1}, {"n": 2}), hand.batch({"n": 3})]
    places = [writer.append(batches[0]), writer.append(batches[1], starts_effect=True)]

    reading = lab.store.read("r1")
    found = {record.sequence: (record, at) for record, at in reading}

    assert [found[n][0] for n in (2, 3, 4)] == [*batches[0].records, *batches[1].records]
    assert [found[2][1], found[4][1]] == places
    assert [lab.store.record_at("r1", at) for _, at in found.values()] == [record for record, _ in found.values()]
    assert (reading.tail.verdict, reading.tail.at_byte) == ("clean", len(lab.raw("r1")))


def test_a_place_where_no_record_begins_is_corrupt(lab: Lab, writer: RunWriter) -> None:
    """A position of another journal, or of one that was replaced, must not give a half record."""
    codes = [code_of(lambda at=at: lab.store.record_at("r1", at), Corrupt) for at in (1, 10**6)]  # type: ignore[misc]  # bound at once

    assert codes == ["run_state_corrupt"] * 2


def test_a_batch_out_of_order_is_never_written(lab: Lab, writer: RunWriter, hand: Hand) -> None:
    """After an interrupt behind the sync the caller would give the same sequence once more."""
    skipped = hand.batch({"n": 1})
    later = hand.batch({"n": 2})
    before = lab.raw("r1")

    codes = [code_of(lambda: writer.append(later), Storage), code_of(lambda: writer.append(skipped), Storage)]

    assert (codes, writer.poisoned, lab.raw("r1")) == (["fact_ledger_poisoned"] * 2, True, before)


def test_a_closed_writer_does_nothing_more(lab: Lab, writer: RunWriter, hand: Hand) -> None:
    """Another process may have the run by now."""
    writer.close()
    reading_tail = verdict(lab, "r1")[1]
    deeds: list[Callable[[], object]] = [
        lambda: writer.append(hand.batch({"n": 1})),
        writer.read,
        lambda: writer.repair(reading_tail, 2),
        lambda: writer.prove({}),
        lambda: writer.publish_head(hand.head()),
    ]

    codes = {code_of(deed, Storage) for deed in deeds}

    assert (codes, writer.poisoned) == ({"fact_ledger_poisoned"}, True)


# ---------------------------------------------------------------------------------------------------------------- head


def test_a_head_is_read_as_it_was_published(lab: Lab, writer: RunWriter, hand: Hand) -> None:
    """`clew ls` shows its row without reading the journal."""
    writer.publish_head(hand.head(99))
    head = hand.head(100)

    writer.publish_head(head)

    assert lab.store.head("r1") == head


def test_a_run_without_a_head_has_none(lab: Lab, writer: RunWriter) -> None:
    """It is a lower bound; its absence says nothing."""
    assert lab.store.head("r1") is None


def test_nothing_below_the_head_may_be_missing(lab: Lab, writer: RunWriter, hand: Hand) -> None:
    """Only the head can tell a shorter file from an earlier one."""
    batch = hand.batch({"n": 1})
    writer.append(batch)
    writer.publish_head(hand.head())
    writer.close()
    reading = lab.store.read("r1")
    whole = lab.raw("r1")
    _shorten(lab, whole[: -len(batch.data)])

    with pytest.raises(Corrupt) as caught:
        list(reading)

    assert (caught.value.code, caught.value.facts["line"]) == ("run_state_corrupt", 2)


def _shorten(lab: Lab, data: bytes) -> None:
    """Cut the stored bytes in place, under the head that is there."""
    if isinstance(lab, FileLab):
        lab.path("r1").write_bytes(data)
    else:
        assert isinstance(lab, MemoryLab)
        del lab.store._journals["r1"].data[len(data) :]


# ---------------------------------------------------------------------------------------------------------- the ending


def test_a_journal_cut_at_any_byte_gives_the_records_before_the_cut(lab: Lab) -> None:
    """The promise on which everything after a crash stands: exactly those, and an end that says what it is."""
    written = sample()
    wrong = []
    for cut in range(1, len(written.data)):
        lab.implant("01JD4KQ7Z8", written.data[:cut])
        if verdict(lab, "01JD4KQ7Z8") != expected_of_cut(written.starts, cut):
            wrong.append((cut, verdict(lab, "01JD4KQ7Z8")))

    assert wrong == []


def expected_of_cut(starts: list[int], cut: int) -> tuple[object, ...]:
    """By counting lines alone: whole lines are records, and so is one that lacks its LF only."""
    whole = sum(start <= cut for start in starts[1:])
    begin, missing = starts[whole], starts[whole + 1] - cut if whole + 1 < len(starts) else 0
    if begin == cut:
        return list(range(1, whole + 1)), _tail("clean", cut, 0)
    if missing == 1:
        return list(range(1, whole + 2)), _tail("unterminated", cut, 0)
    if whole == 0:
        return "run_state_corrupt", 1, 0
    return list(range(1, whole + 1)), _tail("torn", begin, cut - begin)


class _tail:  # noqa: N801  # stands for a Tail, whatever its reason
    def __init__(self, *what: object) -> None:
        self.what = what

    def __eq__(self, tail: object) -> bool:
        return (getattr(tail, "verdict", 0), getattr(tail, "at_byte", 0), getattr(tail, "bytes", 0)) == self.what

    __hash__ = None  # type: ignore[assignment]  # compared, never kept


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_record_of_the_examples_is_read(lab: Lab, example: Path) -> None:
    """They are the format, whole runs of it."""
    data = example.read_bytes()
    run_id = data[22:].split(b'"', 1)[0].decode()
    lab.implant(run_id, data)

    records, tail = read_all(lab.store.read(run_id))

    assert (len(records), tail.verdict) == (data.count(b"\n"), "clean")


def test_a_torn_end_is_kept_cut_and_written_over(lab: Lab, writer: RunWriter, hand: Hand) -> None:
    """Nothing is lost without a trace, and the next record stands where the torn one began."""
    writer.close()
    whole, piece = lab.raw("r1"), hand.batch({"n": 1}).data[:-9]
    lab.implant("r1", whole + piece)
    with_torn_end = lab.store.open("r1")
    reading = with_torn_end.read()
    records = [record for record, _ in reading]
    repaired = with_torn_end.repair(reading.tail, 2)
    with_torn_end.adopt(1, records[-1].chain or "")
    batch = Hand("r1", 1, records[-1].chain or "").batch({"n": 2})

    with_torn_end.append(batch)

    digest = repaired[0].sha256
    assert repaired == (TailRepaired(2, len(whole), len(piece), digest, f"torn-{len(whole)}-{digest[:12]}"),)
    assert lab.raw("r1") == whole + batch.data
    with_torn_end.close()


def test_a_piece_that_no_record_names_is_named_by_the_next_leg(lab: Lab, writer: RunWriter, hand: Hand) -> None:
    """A crash between the cut and the record of it must not make the bytes an orphan."""
    writer.close()
    whole, piece = lab.raw("r1"), hand.batch({"n": 1}).data
    lab.implant("r1", whole + piece[:-9])
    first = lab.store.open("r1")
    go_on(first)
    first.close()
    _grow(lab, piece[:-20])
    second = lab.store.open("r1")
    newest = second.repair(read_all(second.read())[1], 2)
    again = second.repair(read_all(second.read())[1], 2)

    lengths = ([cut.bytes for cut in newest], sorted(cut.bytes for cut in again))

    assert lengths == ([len(piece) - 20, len(piece) - 9], [len(piece) - 20, len(piece) - 9])
    second.close()


def _grow(lab: Lab, data: bytes) -> None:
    if isinstance(lab, FileLab):
        with lab.path("r1").open("ab") as journal:
            journal.write(data)
    else:
        assert isinstance(lab, MemoryLab)
        lab.store._journals["r1"].data += data


def test_a_missing_lf_is_written_before_anything_else(lab: Lab, writer: RunWriter, hand: Hand) -> None:
    """Added by the next append it would be lost together with it, and the whole record with both."""
    writer.close()
    whole = lab.raw("r1")
    lab.implant("r1", whole[:-1])
    again = lab.store.open("r1")

    go_on(again)

    assert lab.raw("r1") == whole
    again.close()


def test_appending_behind_an_end_that_was_not_repaired_is_a_bug(lab: Lab, writer: RunWriter, hand: Hand) -> None:
    """A record behind a torn line makes the whole journal corrupt."""
    writer.close()
    lab.implant("r1", lab.raw("r1") + b'{"vers')
    again = lab.store.open("r1")
    list(again.read())

    with pytest.raises(AssertionError):
        again.adopt(1, hand.chain)

    again.close()


def test_a_damaged_middle_refuses_every_reader_and_changes_nothing(lab: Lab, writer: RunWriter, hand: Hand) -> None:
    """Only the end may be cut; what stands before it was acknowledged."""
    writer.append(hand.batch({"n": 1}))
    writer.close()
    damaged = lab.raw("r1").replace(b'"n":1', b'"n":7') + hand.batch({"n": 2}).data
    lab.implant("r1", damaged)
    again = lab.store.open("r1")

    codes = [code_of(lambda: list(lab.store.read("r1")), Corrupt), code_of(lambda: list(again.read()), Corrupt)]

    assert (codes, lab.raw("r1")) == (["run_state_corrupt"] * 2, damaged)
    again.close()


def test_a_half_written_end_of_a_living_leg_is_being_written(lab: Lab, writer: RunWriter, hand: Hand) -> None:
    """Calling it torn would alarm a person, and a repair would cut what is about to be acknowledged."""
    _grow(lab, hand.batch({"n": 1}).data[:-9])

    _, tail = read_all(lab.store.read("r1"))

    assert tail.verdict == "being_written"


@pytest.mark.parametrize(
    ("kind", "payload"), [("pause", {}), ("finish", {}), ("event", {"event": {"type": "leg_ended", "leg": 1}})]
)
def test_an_end_behind_a_closed_leg_is_torn(
    lab: Lab, writer: RunWriter, hand: Hand, kind: str, payload: dict[str, object]
) -> None:
    """The process may live on for other runs, but it has let this one go."""
    writer.append(hand.batch(payload, kind=kind))  # type: ignore[arg-type]  # the kinds that close a leg
    _grow(lab, hand.batch({"n": 1}).data[:-9])

    _, tail = read_all(lab.store.read("r1"))

    assert tail.verdict == "torn"


def test_a_foreign_journal_without_chain_is_read(lab: Lab) -> None:
    """Reading is mutual: what the reference wrote is shown and planned."""
    line = '{"version":1,"runId":"r1","sequence":%d,"timestamp":"t","kind":"event","payload":{}}\n'
    lab.implant("r1", (line % 1 + line % 2).encode())

    records, tail = read_all(lab.store.read("r1"))

    assert ([(record.sequence, record.chain) for record in records], tail.verdict) == ([(1, None), (2, None)], "clean")


# --------------------------------------------------------------------------------------------------------------- proof


def test_a_living_owner_is_not_proved_gone(lab: Lab, writer: RunWriter, hand: Hand) -> None:
    """Whoever holds the lock sees four answers, in the order of the example journals."""
    proofs = writer.prove({**lab.store.identity(), "nonce": "n1"})

    assert [(proof.proof, proof.answer) for proof in proofs] == [
        ("kernel_lock", "yes"),
        ("local_file_system", "yes"),
        ("same_inode", "yes"),
        ("process_gone", "no"),
    ]


def test_an_owner_of_an_earlier_boot_is_proved_gone(lab: Lab, writer: RunWriter) -> None:
    """All its processes ended with it."""
    proofs = writer.prove({**lab.store.identity(), "bootId": "another", "nonce": "n0"})

    assert proofs[3].answer == "yes"


def test_an_owner_elsewhere_cannot_be_told(lab: Lab, writer: RunWriter) -> None:
    """It needs a person."""
    owner = {**lab.store.identity(), "host": "another", "nonce": "n0"}

    assert (writer.prove(owner)[3].answer, lab.store.owner_state(owner)) == ("cannot_tell", "elsewhere")


# --------------------------------------------------------------------------------------------------------------- inbox


def command(control_id: str = "c1", **changes: object) -> Command:
    return Command(1, control_id, "r1", "pause", "ann", str(changes.get("reason", "lunch")))


def test_commands_wait_by_id_until_they_are_answered(lab: Lab, writer: RunWriter) -> None:
    """The order is the same for every reader, and an answered command is not carried out again."""
    for control_id in ("c2", "c1", "c3"):
        lab.store.post(command(control_id))

    lab.store.answer("r1", CommandAnswer("c1", "applied"))

    assert list(lab.store.pending("r1")) == [command("c2"), command("c3")]


def test_the_same_command_twice_is_one(lab: Lab, writer: RunWriter) -> None:
    """A sender that did not hear back sends again."""
    lab.store.post(command())
    lab.store.post(command())

    assert list(lab.store.pending("r1")) == [command()]


def test_another_command_under_the_same_id_is_refused(lab: Lab, writer: RunWriter) -> None:
    """Otherwise the first sender would take the answer of the second for its own."""
    lab.store.post(command())

    code = code_of(lambda: lab.store.post(command(reason="dinner")), Refused)

    assert (code, list(lab.store.pending("r1"))) == ("control_conflict", [command()])


def test_an_answer_is_found_by_its_sender(lab: Lab, writer: RunWriter) -> None:
    """First accepted, later applied; before that, nothing."""
    before = lab.store.answered("r1", "c1")
    lab.store.answer("r1", CommandAnswer("c1", "accepted"))
    lab.store.answer("r1", CommandAnswer("c1", "applied", "paused at record 9"))

    after = lab.store.answered("r1", "c1")

    assert (before, after) == (None, CommandAnswer("c1", "applied", "paused at record 9"))


def test_a_command_id_that_no_file_may_have_is_refused(lab: Lab, writer: RunWriter) -> None:
    """It comes from outside and becomes a name on disk."""
    code = code_of(lambda: lab.store.post(command("../c1")), UsageError)

    assert code == "invalid_control_id"


# --------------------------------------------------------------------------------------------------------------- blobs


@pytest.fixture(params=["memory", "files"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    if request.param == "memory":
        return MemoryBlobStore()
    (tmp_path / ".clew").mkdir()
    return FileBlobStore(tmp_path / ".clew")


def test_bytes_come_back_by_their_digest(blobs: BlobStore) -> None:
    """Twice the same is one, and empty is content as well."""
    digests = [blobs.put(b"answer"), blobs.put(b"answer"), blobs.put(b"")]

    assert (len(set(digests)), [blobs.get(digest) for digest in digests]) == (2, [b"answer", b"answer", b""])


@pytest.mark.parametrize("digest", ["0" * 64, "", "../../etc/passwd", "A" * 64])
def test_what_was_never_kept_is_missing(blobs: BlobStore, digest: str) -> None:
    """Also under a text that is no digest, which must not become a path."""
    assert (code_of(lambda: blobs.get(digest), NotFound), blobs.has(digest)) == ("blob_missing", False)


def test_genesis_is_where_every_hand_begins(hand: Hand) -> None:
    """The tests write by the same rule as the runtime."""
    batch: Batch = hand.batch({"n": 1})

    assert (batch.first, genesis("r1") != batch.chain) == (1, True)


# --------------------------------------------------------------------------------------------------------- differential


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A journal that a crash, a disk or a person changed: cut, sectors zeroed, bytes flipped, lines moved."""
    data = bytearray(sample(padding=draw(st.integers(0, 600))).data)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data) - 1))
        match draw(st.sampled_from(["cut", "zero", "flip", "repeat", "insert"])):
            case "cut":
                del data[max(at, 1) :]
            case "zero":
                data[at - at % 512 : at - at % 512 + 512] = bytes(len(data[at - at % 512 : at - at % 512 + 512]))
            case "flip":
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "repeat":
                data += data[at:]
            case "insert":
                data[at:at] = draw(st.sampled_from([b"\n", b"\0", b"{}", b"\r"]))
    return bytes(data)


@given(damaged(), st.booleans())
def test_both_stores_say_the_same_of_any_bytes(data: bytes, headed: bool) -> None:
    """One rule, one reader: a file and the reference never differ, and neither ever gives another record."""
    with TemporaryDirectory() as folder:
        labs: list[Lab] = [FileLab(Path(folder)), MemoryLab()]
        for lab in labs:
            lab.implant("01JD4KQ7Z8", data)

        said = [verdict(lab, "01JD4KQ7Z8") for lab in labs]

    assert said[0] == said[1]
    assert said[0][0] == "run_state_corrupt" or said[0][0] == list(range(1, len(said[0][0]) + 1))


@given(damaged())
def test_a_repaired_journal_is_clean_and_goes_on(data: bytes) -> None:
    """Repair, and then one more append, whatever the end was; a corrupt one is left as it is."""
    lab = MemoryLab()
    lab.implant("01JD4KQ7Z8", data)
    writer = lab.store.open("01JD4KQ7Z8")
    try:
        hand = go_on(writer)
    except Corrupt:
        unchanged = lab.raw("01JD4KQ7Z8")

        assert unchanged == data
        return
    writer.append(hand.batch({"n": 1}))

    records, tail = read_all(lab.store.read("01JD4KQ7Z8"))

    assert (records[-1].sequence, tail.verdict) == (hand.sequence, "clean")
