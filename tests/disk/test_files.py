"""Publishing whole files, folders, and reading without a trace."""

import errno
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.disk import files
from clew.errors import ClewError, Refused, Storage
from clew.testing import failing_call
from tests.disk.living import calls_of, living


def test_a_published_file_has_the_new_bytes_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    """Temp files that stay would be taken for content one day."""
    files.publish(tmp_path / "head.json", b"old")
    files.publish(tmp_path / "head.json", b"new")

    assert ((tmp_path / "head.json").read_bytes(), os.listdir(tmp_path)) == (b"new", ["head.json"])


def test_bytes_are_synced_before_the_name_and_the_name_after(tmp_path: Path) -> None:
    """A new name for bytes that are not on the disk is an empty file after a power cut."""
    replacing = calls_of(files.publish, tmp_path / "x", b"new")
    naming = calls_of(files.publish_new, tmp_path / "y", b"new")

    assert replacing == ["write", "fsync", "replace", "fsync"]
    assert naming == ["write", "fsync", "link", "unlink", "fsync"]


def test_a_new_folder_is_synced_into_its_parent(tmp_path: Path) -> None:
    """Otherwise all that is published in it could vanish with it."""
    assert calls_of(files.make_folder, tmp_path / "runs") == ["mkdir", "fsync"]


def test_a_published_file_is_for_its_user_alone(tmp_path: Path) -> None:
    """A head shows what the run is about."""
    files.publish(tmp_path / "head.json", b"")

    assert (tmp_path / "head.json").stat().st_mode & 0o777 == 0o600


PUBLISHER = """
import sys
from pathlib import Path
from clew.disk import files
sys.stdin.readline()
for _ in range(200):
    files.publish(Path(sys.argv[1]), sys.argv[2].encode() * 20000)
print("done", flush=True)
"""


def test_two_processes_that_publish_never_show_half_a_file(tmp_path: Path) -> None:
    """A reader sees one whole content or the other, at every moment."""
    path, seen = tmp_path / "head.json", set[bytes]()
    files.publish(path, b"a" * 20000)
    with living(PUBLISHER, path, "a") as first, living(PUBLISHER, path, "b") as second:
        first.go_on()
        second.go_on()
        while first.process.poll() is None or second.process.poll() is None:
            seen.add(path.read_bytes())
        ends = [first.ends(), second.ends()]

    left = os.listdir(tmp_path)

    assert (seen <= {b"a" * 20000, b"b" * 20000}, ends, left) == (True, [0, 0], ["head.json"])


NAMER = """
import sys
from pathlib import Path
from clew.disk import files
sys.stdin.readline()
won = [n for n in range(200) if files.publish_new(Path(sys.argv[1]) / str(n), sys.argv[2].encode())]
print(*won, flush=True)
"""


def test_of_two_processes_exactly_one_gets_each_name(tmp_path: Path) -> None:
    """The id of a command, or of a run, is given once."""
    with living(NAMER, tmp_path, "a") as first, living(NAMER, tmp_path, "b") as second:
        first.go_on()
        second.go_on()
        a, b = first.says().split(), second.says().split()

    owners = {path.name: path.read_text() for path in tmp_path.iterdir()}

    assert owners == {**dict.fromkeys(a, "a"), **dict.fromkeys(b, "b")}
    assert sorted([*a, *b], key=int) == [str(n) for n in range(200)]


def test_a_taken_name_is_said_and_kept(tmp_path: Path) -> None:
    """Whoever came first stays."""
    files.publish_new(tmp_path / "c1.json", b"first")

    is_new = files.publish_new(tmp_path / "c1.json", b"second")

    assert (is_new, (tmp_path / "c1.json").read_bytes(), os.listdir(tmp_path)) == (False, b"first", ["c1.json"])


def test_a_rename_without_links_does_not_replace_either(tmp_path: Path) -> None:
    """On a file system without hard links this is the way, and it must keep the same promise."""
    (tmp_path / "temp").write_bytes(b"new")
    (tmp_path / "name").write_bytes(b"old")

    with pytest.raises(FileExistsError):
        files.rename_new(tmp_path / "temp", tmp_path / "name")
    files.rename_new(tmp_path / "temp", tmp_path / "other")

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"name": b"old", "other": b"new"}


def test_a_stale_temp_file_is_walked_around(tmp_path: Path) -> None:
    """A crash leaves one behind, under a name that a later process of the same number would choose."""
    temp, fd = files.exclusive(tmp_path / "x")
    os.close(fd)
    number = int(temp.name.split("-")[-1].removesuffix(".tmp"))
    for later in range(1, 50):
        (tmp_path / temp.name.replace(f"-{number}.", f"-{number + later}.")).write_bytes(b"stale")

    files.publish(tmp_path / "x", b"new")

    assert (tmp_path / "x").read_bytes() == b"new"


def test_publishing_over_a_folder_fails_without_a_trace(tmp_path: Path) -> None:
    """Whatever stands there is not ours to move away."""
    (tmp_path / "x" / "inside").mkdir(parents=True)

    with pytest.raises(Storage) as caught:
        files.publish(tmp_path / "x", b"new")

    assert (caught.value.code, os.listdir(tmp_path)) == ("run_state_failed", ["x"])


def test_a_file_that_windows_keeps_busy_is_given_time(tmp_path: Path) -> None:
    """A virus scanner has it open for a moment; that is no reason to lose a run."""
    busy = [13, 13]

    def deed(temp: Path, path: Path) -> None:
        if busy:
            error = PermissionError(busy.pop(), "busy")
            error.winerror = 32  # type: ignore[attr-defined]  # only Windows declares it
            raise error

    files._patiently(deed, tmp_path / "temp", tmp_path / "path")

    assert busy == []


def test_a_denial_that_is_not_transient_is_not_retried(tmp_path: Path) -> None:
    """Waiting for a right that nobody will give only hides the cause."""
    calls = []

    def deed(temp: Path, path: Path) -> None:
        calls.append(temp)
        raise PermissionError(13, "denied")

    with pytest.raises(PermissionError):
        files._patiently(deed, tmp_path / "temp", tmp_path / "path")

    assert len(calls) == 1


def test_a_folder_is_made_once_and_for_its_user_alone(tmp_path: Path) -> None:
    """Making it again is how every process begins."""
    files.make_folder(tmp_path / "runs")
    files.make_folder(tmp_path / "runs")

    assert (tmp_path / "runs").stat().st_mode & 0o777 == 0o700


def test_a_folder_without_a_parent_is_a_typed_refusal(tmp_path: Path) -> None:
    """The home's parent is the user's; it is never invented."""
    with pytest.raises(Storage) as caught:
        files.make_folder(tmp_path / "a" / "b")

    assert caught.value.facts == {"path": str(tmp_path / "a" / "b"), "errno": "ENOENT"}


@pytest.mark.parametrize(
    "deed",
    [
        files.make_folder,
        lambda path: files.below(path.parent, path.name, "x.jsonl"),
        files.unlinked,
        files.list_unlinked,
    ],
)
def test_a_link_below_the_home_is_refused(tmp_path: Path, deed: object) -> None:
    """It would lead writes, and the lock, out of the home."""
    (tmp_path / "real").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "real")

    with pytest.raises(Refused) as caught:
        deed(tmp_path / "runs")  # type: ignore[operator]  # deeds of one shape

    assert caught.value.code == "home_link_refused"


def test_the_home_itself_may_be_a_link(tmp_path: Path) -> None:
    """People put it on another disk."""
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "real")

    path = files.below(tmp_path / "home", "runs")

    assert path == tmp_path / "home" / "runs"


@pytest.mark.parametrize(
    "reading",
    [
        lambda path: files.read_bytes(path, 10),
        lambda path: list(files.pieces(path, 0)),
        lambda path: files.read_line(path, 0, 10),
        files.size_of,
    ],
)
def test_a_link_is_not_read(tmp_path: Path, reading: object) -> None:
    """What it leads to is nothing that clew wrote."""
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")

    with pytest.raises(Refused) as caught:
        reading(tmp_path / "link")  # type: ignore[operator]  # four readings of one shape

    assert caught.value.code == "home_link_refused"


def test_what_is_not_there_is_said_so(tmp_path: Path) -> None:
    """The store gives it its name: an unknown run, a missing blob."""
    path = tmp_path / "x"

    found = (files.read_bytes(path, 9), files.read_line(path, 0, 9), files.size_of(path), files.list_names(path))

    assert found == (None, None, None, [])


def test_a_folder_that_may_be_no_link_is_listed_as_any_other(tmp_path: Path) -> None:
    """It differs by that refusal alone: what is there, what is not, and what is no folder."""
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "y").touch()
    codes = []
    for deed in (files.list_names, files.list_unlinked):
        with pytest.raises(ClewError) as caught:
            deed(tmp_path / "x" / "y" / "z")
        codes.append((caught.value.code, str(caught.value)))

    assert (["y"], []) == (files.list_unlinked(tmp_path / "x"), files.list_unlinked(tmp_path / "gone"))
    assert codes[0] == codes[1]


def test_reading_stops_at_the_limit(tmp_path: Path) -> None:
    """A file that grew to gigabytes must not fill the memory of `clew ls`."""
    (tmp_path / "x").write_bytes(b"0123456789")

    assert files.read_bytes(tmp_path / "x", 4) == b"0123"


def test_pieces_are_the_file_from_a_place_on(tmp_path: Path) -> None:
    """Joined they are the bytes, whatever the length of a piece."""
    content = bytes(range(256)) * 10_000
    (tmp_path / "x").write_bytes(content)

    pieces = list(files.pieces(tmp_path / "x", 1000))

    assert (b"".join(pieces), [len(piece) for piece in pieces]) == (content[1000:], [1 << 20, 1 << 20, 461848])


def test_pieces_end_where_the_file_ended_at_the_first(tmp_path: Path) -> None:
    """A reader that followed a busy writer would never come to an end."""
    (tmp_path / "x").write_bytes(b"a" * (files.PIECE + 1))
    pieces = files.pieces(tmp_path / "x", 0)
    next(pieces)
    with (tmp_path / "x").open("ab") as more:
        more.write(b"b" * 99)

    assert list(pieces) == [b"a"]


def test_pieces_of_a_file_that_became_shorter_end(tmp_path: Path) -> None:
    """A writer cut a torn tail meanwhile."""
    (tmp_path / "x").write_bytes(b"a" * (files.PIECE + 1))
    pieces = files.pieces(tmp_path / "x", 0)
    next(pieces)
    os.truncate(tmp_path / "x", 3)

    assert list(pieces) == []


@pytest.mark.parametrize("length", [0, 1, 4095, 4096, 4097, 70_000])
def test_a_line_is_found_by_its_place(tmp_path: Path, length: int) -> None:
    """`show` reads one answer out of a journal of gigabytes."""
    (tmp_path / "x").write_bytes(b"first\n" + b"a" * length + b"\nlast")

    lines = (files.read_line(tmp_path / "x", 6, 99_999), files.read_line(tmp_path / "x", 7 + length, 99_999))

    assert lines == (b"a" * length or None, b"last")


@pytest.mark.skipif(os.geteuid() == 0, reason="root is denied nothing")
@pytest.mark.parametrize("deed", [lambda path: files.publish(path / "x", b""), files.list_names])
def test_a_denied_folder_is_named(tmp_path: Path, deed: object) -> None:
    """The next step is a right to be given."""
    (tmp_path / "closed").mkdir(mode=0)

    with pytest.raises(ClewError) as caught:
        deed(tmp_path / "closed")  # type: ignore[operator]  # two deeds of one shape

    assert caught.value.code == "storage_denied"


def test_threads_that_publish_do_not_meet_in_a_temp_file(tmp_path: Path) -> None:
    """Eight workers of one process publish heads at once."""

    def work(letter: str) -> None:
        for _ in range(20):
            files.publish(tmp_path / "x", letter.encode() * 5000)

    threads = [threading.Thread(target=work, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(set((tmp_path / "x").read_bytes())), os.listdir(tmp_path)) == (1, ["x"])


def test_the_longest_name_can_be_published(tmp_path: Path) -> None:
    """The temp file beside it must not need a longer one."""
    name = "ä" * 127

    files.publish(tmp_path / name, b"x")

    assert os.listdir(tmp_path) == [name]


def test_a_temp_file_is_known_by_its_name(tmp_path: Path) -> None:
    """What a crash left behind is no content; what a user named alike is."""
    temp, fd = files.exclusive(tmp_path / "x.txt")
    os.close(fd)

    known = [files.is_temp(name) for name in (temp.name, ".x.tmp", "x.12-3.tmp", ".x.12-3.tmp.txt")]

    assert known == [True, False, False, False]


# Refusals of the machine.


def test_a_temp_file_of_an_earlier_try_is_made_anew(tmp_path: Path) -> None:
    """A death may have left anything in it."""
    first, fd = files.exclusive(tmp_path / "x", mark="abc")
    os.write(fd, b"half")
    os.close(fd)

    again, fd = files.exclusive(tmp_path / "x", mark="abc")

    assert (first, 0) == (again, os.fstat(fd).st_size)
    os.close(fd)


def test_a_folder_that_cannot_be_opened_is_not_called_synced(tmp_path: Path) -> None:
    """A name that is not on the disk is gone after a power cut."""
    with pytest.raises(Storage) as refused:
        files.sync_folder(tmp_path / "none")

    assert "durability_barrier_failed" == refused.value.code


@pytest.mark.skipif(sys.platform == "win32", reason="Windows gives names in another way")
def test_where_there_are_no_links_a_name_is_given_by_a_rename_that_spares(tmp_path: Path) -> None:
    """FAT and some network disks have no hard links."""
    told = []
    for _ in range(2):
        with failing_call("link", error=OSError(errno.EPERM, "no links")):
            told.append(files.publish_new(tmp_path / "x", b"one"))

    assert ([True, False], b"one", ["x"]) == (told, (tmp_path / "x").read_bytes(), os.listdir(tmp_path))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows gives names in another way")
def test_a_system_without_such_a_rename_refuses_and_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rename that replaces would take somebody's run id."""
    monkeypatch.setattr("clew.disk.files.ctypes.CDLL", lambda *_, **__: object())

    with failing_call("link", error=OSError(errno.EPERM, "no links")), pytest.raises(Storage):
        files.publish_new(tmp_path / "x", b"one")

    assert [] == os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("call", "ask"), [("lstat", files.mode_of), ("lstat", files.size_of), ("mkdir", files.claim_folder)]
)
def test_what_cannot_be_looked_at_or_made_is_told_by_its_place(
    tmp_path: Path, call: str, ask: Callable[[Path], object]
) -> None:
    """Denied is neither absent nor taken."""
    with failing_call(call), pytest.raises(Storage) as refused:
        ask(tmp_path / "x")

    assert str(tmp_path / "x") == refused.value.facts["path"]


def test_what_is_not_there_has_no_mode(tmp_path: Path) -> None:
    """A folder of claims is made before the first claim is."""
    (tmp_path / "x").touch(0o640)

    assert [0o640, None] == [files.mode_of(tmp_path / "x"), files.mode_of(tmp_path / "none")]


def test_a_file_that_stays_busy_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many tries a person must close the program that keeps it."""
    waited: list[float] = []
    monkeypatch.setattr("clew.disk.files.time.sleep", waited.append)

    def busy(temp: Path, path: Path) -> None:
        error = PermissionError(13, "busy", str(path))
        error.winerror = 32  # type: ignore[attr-defined,unused-ignore]  # as Windows says it
        raise error

    with pytest.raises(Storage) as refused:
        files._patiently(busy, Path("temp"), Path("x"))

    assert ("publish_failed", "x", 8) == (refused.value.code, refused.value.facts["path"], len(waited))


def test_a_line_of_a_file_that_became_shorter_is_what_is_left(tmp_path: Path) -> None:
    """Somebody cuts the journal while it is read; nobody waits for bytes that are gone."""
    (tmp_path / "x").write_bytes(b"abc")
    fd = os.open(tmp_path / "x", os.O_RDONLY)

    found = files._read_line(fd, tmp_path / "x", 0, 99)

    os.close(fd)
    assert b"abc" == found
