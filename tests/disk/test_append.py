"""The file that grows: what is acknowledged is there, and after the first failure nothing is acknowledged any more."""

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.disk import append as module
from clew.disk.append import AppendFile, birth
from clew.disk.lock import take
from clew.errors import ClewError, Refused, Storage
from clew.testing.faults import failing_call
from tests.disk.living import HOLDER, calls_of, interrupted_at, living, output_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def file(path: Path) -> Iterator[AppendFile]:
    file = birth(path, b"one\n")
    yield file
    file.close()


def opened(path: Path) -> AppendFile:
    file = AppendFile.open(path, wait_s=0.0)
    assert file is not None
    return file


def code_of(deed: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(ClewError) as caught:
        deed(*arguments, **named)
    return caught.value.code


def test_an_append_goes_to_the_end_and_says_where_it_begins(file: AppendFile, path: Path) -> None:
    """The position is how a record is found again without reading the journal."""
    at = file.append(b"two\n")

    assert (at, path.read_bytes(), file.size_bytes) == (4, b"one\ntwo\n", 8)


def test_a_file_is_born_locked_with_its_bytes(file: AppendFile, path: Path) -> None:
    """Between birth and lock another process could begin to write."""
    other = AppendFile.open(path, wait_s=0.0)

    assert (other, path.read_bytes(), os.listdir(path.parent)) == (None, b"one\n", ["journal"])


def test_a_born_file_is_for_its_user_alone(file: AppendFile, path: Path) -> None:
    """Arguments of payments are in it."""
    mode = path.stat().st_mode & 0o777

    assert mode == 0o600


def test_a_birth_never_replaces(path: Path) -> None:
    """An id is given once; the journal that has it stays as it is, and no temp file is left."""
    path.write_bytes(b"older")

    with pytest.raises(FileExistsError):
        birth(path, b"newer")

    assert (path.read_bytes(), os.listdir(path.parent)) == (b"older", ["journal"])


def test_a_birth_in_no_folder_is_a_typed_refusal(tmp_path: Path) -> None:
    """A raw OSError tells neither code nor next step."""
    code = code_of(birth, tmp_path / "nowhere" / "journal", b"")

    assert code == "run_state_failed"


def test_an_append_is_one_write_and_one_sync(file: AppendFile) -> None:
    """Contract #25, #61 as DESIGN §13 has them: two writes could be parted; without the sync all is hope."""
    assert calls_of(file.append, b"two\n") == ["write", "fdatasync"]


def test_a_birth_is_locked_and_synced_before_it_has_its_name(path: Path) -> None:
    """A name that comes before its bytes is an empty journal after a power cut; a late lock is another writer."""
    born: list[AppendFile] = []

    calls = calls_of(lambda: born.append(birth(path, b"one\n")))

    assert calls == ["flock", "write", "fsync", "link", "unlink", "fsync"]
    born[0].close()


def test_a_cut_is_synced(file: AppendFile) -> None:
    """Otherwise the torn bytes could come back behind the next record."""
    assert calls_of(file.truncate, 0) == ["ftruncate", "fsync"]


def test_the_cache_is_forgotten_after_a_sync(file: AppendFile) -> None:
    """Dirty pages cannot be dropped, so a cache that was not synced would be read again."""
    assert calls_of(file.forget_cache) == ["fsync", "posix_fadvise"]


@pytest.mark.parametrize("change", ["unlink", "grow", "cut"])
def test_a_changed_file_stops_the_writer(file: AppendFile, path: Path, change: str) -> None:
    """Somebody else wrote, so what this writer knows of the end is wrong."""
    if change == "unlink":
        path.unlink()
    else:
        os.truncate(path, 9 if change == "grow" else 2)

    code = code_of(file.append, b"two\n")

    assert (code, file.poisoned) == ("journal_replaced", True)


def test_a_replaced_path_stops_the_writer_before_an_effect(file: AppendFile, path: Path) -> None:
    """The name now leads to another journal: what is started would be recorded where nobody looks."""
    path.rename(path.with_name("moved"))
    path.write_bytes(b"one\n")

    code = code_of(file.append, b"two\n", check_path=True)

    assert (code, path.read_bytes()) == ("journal_replaced", b"one\n")


def test_a_path_that_cannot_be_looked_at_is_not_called_replaced(file: AppendFile) -> None:
    """Whoever hears that somebody else changed the journal looks for a person, not at the disk."""
    with pytest.raises(Storage) as caught, failing_call("stat"):
        file.append(b"two\n", check_path=True)

    assert ("run_state_failed", "EIO", True) == (caught.value.code, caught.value.facts["errno"], file.poisoned)


def test_after_a_failure_nothing_is_acknowledged(file: AppendFile, path: Path) -> None:
    """Contract #54: what the failed append left is not known; a second try could stand behind half a record."""
    os.truncate(path, 2)
    code_of(file.append, b"two\n")
    os.truncate(path, 4)

    codes = [
        code_of(file.append, b"two\n"),
        code_of(file.truncate, 0),
        code_of(file.pieces, 0),
        code_of(file.forget_cache),
    ]

    assert (codes, path.stat().st_size) == (["fact_ledger_poisoned"] * 4, 4)


def test_a_full_disk_is_named(path: Path) -> None:
    """The user can act on it, unlike on a number."""
    file = AppendFile(os.open("/dev/full", os.O_RDWR), path, 0)

    code = code_of(file.append, b"two\n")

    assert (code, file.poisoned) == ("disk_full", True)
    file.close()


def test_a_failed_sync_is_not_an_acknowledgement(path: Path) -> None:
    """Contract #49, #59 as DESIGN §13 has them: a pipe refuses the sync, as a dying disk does."""
    reading, writing = os.pipe()
    file = AppendFile(writing, path, 0)

    code = code_of(file.append, b"two\n")

    assert (code, file.poisoned) == ("durability_barrier_failed", True)
    file.close()
    os.close(reading)


SHORT = """
import resource, sys
from pathlib import Path
from clew.disk.append import AppendFile
from clew.errors import Storage
path = Path(sys.argv[1])
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
file = AppendFile.open(path, wait_s=0.0)
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 5, hard))
for _ in range(2):
    try:
        file.append(b"0123456789")
    except Storage as error:
        print(error.code, error.facts.get("written"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
"""


def test_a_short_write_ends_the_writer(path: Path) -> None:
    """Going on would leave half a line in the middle of the journal, which nobody can repair."""
    birth(path, b"one\n").close()

    said = output_of(SHORT, path)

    assert (said, path.read_bytes()) == (["run_state_failed 5", "fact_ledger_poisoned None"], b"one\n01234")


def test_an_end_is_cut_durably_and_writing_goes_on(file: AppendFile, path: Path) -> None:
    """A torn tail is cut through the locked descriptor, so that nobody can be between cut and append."""
    file.append(b"to")
    file.truncate(4)
    file.append(b"two\n")

    content = b"".join(file.pieces(0))

    assert (content, path.read_bytes()) == (b"one\ntwo\n", b"one\ntwo\n")


def test_what_is_read_after_forgetting_the_cache_is_the_file(file: AppendFile) -> None:
    """The pages are dropped, not the bytes."""
    file.forget_cache()

    content = b"".join(file.pieces(1))

    assert content == b"ne\n"


def test_a_closed_file_frees_the_lock_and_does_nothing_more(file: AppendFile, path: Path) -> None:
    """The descriptor's number may be another file's by then."""
    file.close()
    file.close()

    again = opened(path)

    assert (code_of(file.append, b"x"), again.size_bytes) == ("fact_ledger_poisoned", 4)
    again.close()


def test_a_link_is_not_opened(path: Path, tmp_path: Path) -> None:
    """It could lead the writer to any file of the user."""
    (tmp_path / "elsewhere").write_bytes(b"one\n")
    path.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(Refused) as caught:
        AppendFile.open(path, wait_s=0.0)

    assert caught.value.code == "home_link_refused"


def test_a_missing_file_is_left_to_the_caller_to_name(path: Path) -> None:
    """Only the store knows that it was a run."""
    with pytest.raises(FileNotFoundError):
        AppendFile.open(path, wait_s=0.0)


def test_only_one_of_two_processes_opens(path: Path) -> None:
    """The promise that two writers never overwrite each other."""
    birth(path, b"one\n").close()
    with living(HOLDER, path) as first, living(HOLDER, path) as second:
        said = sorted([first.says(), second.says()])

    assert said == ["held", "refused"]


FORK = """
import os, sys
from pathlib import Path
from clew.disk.append import AppendFile
from clew.errors import Storage
path = Path(sys.argv[1])
file = AppendFile.open(path, wait_s=0.0)
reading, writing = os.pipe()
if os.fork() == 0:
    try:
        file.append(b"child")
        os.write(writing, b"written ")
    except Storage as error:
        os.write(writing, error.code.encode() + b" ")
    file.close()
    os._exit(0)
os.wait()
other = AppendFile.open(path, wait_s=0.0)
print(os.read(reading, 99).decode() + ("lost" if other else "kept"), file.append(b"two"))
"""


def test_a_forked_child_is_no_writer_and_leaves_the_lock(path: Path) -> None:
    """Parent and child would both append at the same place; an unlock in the child would free the parent's lock."""
    birth(path, b"one\n").close()

    said = output_of(FORK, path)

    assert (said, path.read_bytes()) == (["fact_ledger_poisoned kept 4"], b"one\ntwo")


ORPHAN = """
import os, sys
from pathlib import Path
from clew.disk.append import AppendFile
file = AppendFile.open(Path(sys.argv[1]), wait_s=0.0)
if os.fork() == 0:
    print("forked", flush=True)
    sys.stdin.readline()
    os._exit(0)
sys.stdin.readline()
"""


def test_a_child_that_outlives_its_parent_holds_nothing(path: Path) -> None:
    """A worker that was left behind must not lock the run for ever."""
    birth(path, b"one\n").close()
    with living(ORPHAN, path) as parent:
        parent.says()
        parent.kill()

        file = AppendFile.open(path, wait_s=10.0)

    assert file is not None
    file.close()


def test_an_interrupt_anywhere_in_an_append_poisons_or_comes_after_it(path: Path) -> None:
    """Ctrl-C between write and sync would leave a line that the next append does not know of."""
    birth(path, b"").close()
    nth, points = 1, []
    while True:
        file = opened(path)
        at = file.size_bytes
        reached = interrupted_at(nth, (module,), file.append, b"ab\n", check_path=True)
        points.append((file.poisoned, file.size_bytes == path.stat().st_size, path.stat().st_size in (at, at + 3)))
        file.close()
        if not reached:
            break
        nth += 1

    unsafe = [point for point in points if point not in [(True, True, True), (True, False, True), (False, True, True)]]

    assert (unsafe, nth > 60) == ([], True)


def small_disk(folder: Path) -> Iterator[Path]:
    if os.system(f"mount -t tmpfs -o size=64k tmpfs '{folder}' 2>/dev/null"):
        pytest.skip("a small file system can be mounted by root only")
    try:
        yield folder
    finally:
        os.system(f"umount '{folder}'")


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    yield from small_disk(tmp_path)


def test_a_disk_that_fills_up_ends_the_writer_and_space_does_not_revive_it(full_disk: Path) -> None:
    """On a real full disk the big append is cut short and the next small one would be accepted behind it."""
    file = birth(full_disk / "journal", b"x" * 5000)
    first = code_of(file.append, b"y" * 100_000)
    os.truncate(full_disk / "journal", 5000)

    second = code_of(file.append, b"z")

    assert (first, second) == ("disk_full", "fact_ledger_poisoned")
    file.close()


def test_a_birth_on_a_full_disk_leaves_nothing(full_disk: Path) -> None:
    """Half a journal without a name would fill the disk further."""
    with pytest.raises(Storage) as caught:
        birth(full_disk / "journal", b"x" * 100_000)

    assert (caught.value.code, os.listdir(full_disk)) == ("disk_full", [])


# Refusals of the machine.


@pytest.mark.parametrize("call", ["flock", "fstat"])
def test_a_file_that_cannot_be_locked_or_looked_at_is_not_kept_open(file: AppendFile, path: Path, call: str) -> None:
    """A lock that nobody can let go of would keep the run for ever."""
    file.close()

    with failing_call(call, error=OSError(errno.ENOLCK, "not now")):
        code = code_of(AppendFile.open, path, wait_s=0.0)

    opened(path).close()
    assert "run_state_failed" == code


def test_a_file_that_became_another_one_behind_its_lock_is_not_kept(path: Path) -> None:
    """Between opening and locking somebody may restore a copy; what was locked is then no run of this name."""
    path.write_bytes(b"one\n")
    (path.parent / "copy").write_bytes(b"one\n")
    lock = take

    def late(fd: int, wait_s: float) -> bool:
        os.replace(path.parent / "copy", path)
        return lock(fd, wait_s)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "take", late)
        code = code_of(AppendFile.open, path, wait_s=0.0)

    opened(path).close()
    assert "journal_replaced" == code


def test_an_end_that_cannot_be_cut_ends_the_writer(file: AppendFile, path: Path) -> None:
    """What stands at the end is not known then."""
    with failing_call("ftruncate"):
        code = code_of(file.truncate, 0)

    assert ("run_state_failed", "fact_ledger_poisoned", b"one\n") == (
        code,
        code_of(file.append, b"two\n"),
        path.read_bytes(),
    )


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such call")
def test_a_cache_that_cannot_be_dropped_is_not_believed(file: AppendFile) -> None:
    """Behind a failed sync it shows bytes that are lost."""
    with failing_call("posix_fadvise"):
        code = code_of(file.forget_cache)

    assert "run_state_failed" == code


def test_a_birth_that_gets_no_name_is_told_in_our_words_and_leaves_nothing(path: Path) -> None:
    """A run id that was given to nothing must stay free."""
    with failing_call("link"):
        code = code_of(birth, path, b"one\n")

    assert ("run_state_failed", []) == (code, os.listdir(path.parent))


def test_a_child_closes_every_file_of_its_parent(file: AppendFile) -> None:
    """What is done in a fork, done here: none of them can be written any more."""
    module._in_forked_child()

    assert "fact_ledger_poisoned" == code_of(file.append, b"two\n")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pipe that does not wait")
def test_a_write_that_took_only_a_part_is_no_acknowledgement(path: Path) -> None:
    """A pipe that nobody empties takes a part, as a disk does whose room ends there; it is not asked for the rest."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    file = AppendFile(writing, path, 0)

    with pytest.raises(Storage) as refused:
        file.append(b"x" * (1 << 20))
    file.close()
    os.close(reading)

    assert (True, True) == (0 < refused.value.facts["written"] < refused.value.facts["expected"], file.poisoned)
