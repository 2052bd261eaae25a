"""Every store, every case of the public kit; and what only our two stores can be asked together."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.errors import Corrupt, NotFound
from clew.stores.base import BlobStore
from clew.stores.blobs import FileBlobStore
from clew.stores.memory import MemoryBlobStore
from clew.testing import RUN_STORE_CASES, Case, RunStoreLab
from tests.core.journals import EXAMPLES, sample
from tests.stores.lab import FileLab, Lab, MemoryLab, code_of, files_lab, go_on, memory_lab, read_all, verdict


@pytest.mark.parametrize("case", RUN_STORE_CASES, ids=str)
def test_the_files_pass(case: Case[RunStoreLab], tmp_path: Path) -> None:
    """They keep the runs of our users; each case says what would be lost without it."""
    case.run(files_lab(tmp_path))


@pytest.mark.parametrize("case", RUN_STORE_CASES, ids=str)
def test_the_memory_passes(case: Case[RunStoreLab]) -> None:
    """It is the reference, and every test of the runtime stands on it."""
    case.run(memory_lab())


# ------------------------------------------------------------------------------------------------------------ examples


@pytest.fixture(params=["memory", "files"])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    return MemoryLab() if request.param == "memory" else FileLab(tmp_path)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_record_of_the_examples_is_read(lab: Lab, example: Path) -> None:
    """They are the format, whole runs of it."""
    data = example.read_bytes()
    run_id = data[22:].split(b'"', 1)[0].decode()
    lab.implant(run_id, data)

    records, tail = read_all(lab.store.read(run_id))

    assert (len(records), tail.verdict) == (data.count(b"\n"), "clean")


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
