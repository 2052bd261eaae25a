"""Claims on business keys: the same cases for memory and files, and what lies on the disk when something strikes."""

import os
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.core.keys import Claim
from clew.errors import ClewError, Corrupt, Refused, Storage
from clew.stores.base import KeyIndex
from clew.stores.homefile import HomeFile
from clew.stores.keys import FileKeyIndex, MemoryKeyIndex
from clew.testing.faults import Strikes, failing_call, in_small_steps

DIGEST = sha256(b"1042").hexdigest()
OTHER = sha256(b"1043").hexdigest()


def claim(run: str = "r1", **changed: Any) -> Claim:
    made = Claim(1, "pay", DIGEST, "1042", run, "pay-1", "c1", f"{run}:pay-1:c1", 1, "n1", "2026-11-29T12:00:00.000Z")
    return msgspec.structs.replace(made, **changed)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A home that is its own."""
    (tmp_path / ".clew").mkdir()
    HomeFile(tmp_path / ".clew").make()
    return tmp_path / ".clew"


@pytest.fixture
def file_index(root: Path) -> FileKeyIndex:
    return FileKeyIndex(root)


@pytest.fixture(params=["memory", "files"])
def index(request: pytest.FixtureRequest, root: Path) -> KeyIndex:
    return MemoryKeyIndex() if request.param == "memory" else FileKeyIndex(root)


# Every index.


def test_a_key_that_nobody_claimed_has_no_claim(index: KeyIndex) -> None:
    """Absence is what lets an effect start, so it must be told apart from everything else."""
    assert (None, [], []) == (index.last(DIGEST, "pay"), list(index.of_key(DIGEST)), list(index.claims()))


def test_a_claim_is_found_as_it_was_made(index: KeyIndex) -> None:
    """Who is refused must be told who has the key."""
    taken = index.take(1, claim())

    assert (True, (1, claim())) == (taken, index.last(DIGEST, "pay"))


def test_a_number_is_given_once(index: KeyIndex) -> None:
    """Of any number of processes that take a key over, one may start."""
    index.take(1, claim())
    again = index.take(1, claim("r2"))

    assert (False, (1, claim())) == (again, index.last(DIGEST, "pay"))


def test_the_next_number_counts(index: KeyIndex) -> None:
    """A takeover leaves the claim before it where it is, and is the one that counts."""
    for number in range(1, 8):
        index.take(number, claim(f"r{number}"))

    assert (7, claim("r7")) == index.last(DIGEST, "pay")


def test_a_key_belongs_to_one_tool(index: KeyIndex) -> None:
    """An order is paid once and shipped once."""
    index.take(1, claim())
    shipped = index.take(1, claim("r2", tool="ship"))

    assert (True, (1, claim())) == (shipped, index.last(DIGEST, "pay"))


def test_of_one_key_every_tool_is_told(index: KeyIndex) -> None:
    """Who looks for an order number seldom knows the tool's name."""
    index.take(1, claim("r2", tool="ship"))
    index.take(1, claim("r3", sha256=OTHER))
    index.take(1, claim())

    assert [claim(), claim("r2", tool="ship")] == list(index.of_key(DIGEST))


def test_every_last_claim_is_listed(index: KeyIndex) -> None:
    """A rebuild compares them with the journals."""
    index.take(1, claim())
    index.take(2, claim("r2"))
    index.take(1, claim("r3", sha256=OTHER))

    assert {"r2", "r3"} == {each.run_id for each in index.claims()}


def test_the_first_mark_is_heard(index: KeyIndex) -> None:
    """Two that build at once have built the same."""
    index.complete("m1", "-")
    first = index.mark()
    index.complete("m2", "-")

    assert first == index.mark() != ""


def test_of_many_at_once_one_has_the_number(index: KeyIndex) -> None:
    """The whole promise rests on this."""
    won, start = list[bool](), threading.Barrier(8)

    def contend(run: str) -> None:
        start.wait()
        for number in range(1, 6):
            won.append(index.take(number, claim(run)))

    threads = [threading.Thread(target=contend, args=(f"r{each}",)) for each in range(8)]
    with in_small_steps():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    assert {True: 5, False: 35} == Counter(won)


# Files.


def test_a_claim_is_one_small_file_that_anyone_can_find(file_index: FileKeyIndex, root: Path) -> None:
    """`printf 1042 | sha256sum` leads to it."""
    file_index.take(1, claim())
    tool = sha256(b"pay").hexdigest()[:16]
    path = root / "keys" / DIGEST[:2] / f"{DIGEST}-{tool}-1.json"

    assert (0o600, 0o700) == (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777)
    assert claim() == msgspec.json.decode(path.read_bytes(), type=Claim)
    assert path.stat().st_size < 600


def test_an_index_without_its_mark_is_not_complete(file_index: FileKeyIndex, root: Path) -> None:
    """Keys that were removed by hand must not look free."""
    file_index.complete("m1", "-")
    known = file_index.mark()
    (root / "keys" / "index.json").unlink()

    assert ("m1", "") == (known, file_index.mark())


def test_looking_leaves_no_trace(file_index: FileKeyIndex, root: Path) -> None:
    """Readers never write (promise 11), not even a folder."""
    file_index.last(DIGEST, "pay")
    file_index.of_key(DIGEST)
    list(file_index.claims())
    file_index.mark()

    assert ["home.json"] == [path.name for path in root.iterdir()]


def test_a_copied_home_takes_no_claim(file_index: FileKeyIndex, root: Path, tmp_path: Path) -> None:
    """The original may have the key by now."""
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "home.json").write_bytes((root / "home.json").read_bytes())
    with pytest.raises(Refused) as error:
        FileKeyIndex(copy).take(1, claim())

    assert ("home_copied", [copy / "home.json"]) == (error.value.code, list(copy.iterdir()))


@pytest.mark.parametrize(
    "spoil",
    [lambda data: b"", lambda data: data[:-20], lambda data: data.replace(DIGEST.encode(), OTHER.encode()),
     lambda data: data.replace(b'"attempt":1', b'"attempt":"1"'), lambda data: data.replace(b"pay", b"pax", 1)],
    ids=["empty", "cut", "another key", "another type", "another tool"],
)  # fmt: skip
def test_a_damaged_claim_is_never_taken_for_none(
    file_index: FileKeyIndex, root: Path, spoil: Callable[[bytes], bytes]
) -> None:
    """It would let the effect happen again."""
    file_index.take(1, claim())
    [path] = root.glob("keys/*/*-1.json")
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(Corrupt) as error:
        file_index.last(DIGEST, "pay")

    assert ("key_claim_corrupt", str(path)) == (error.value.code, error.value.facts["path"])


def test_a_damaged_mark_is_none(file_index: FileKeyIndex, root: Path) -> None:
    """Whether the index is complete is not guessed."""
    file_index.complete("m1", "-")
    (root / "keys" / "index.json").write_text("{}")
    with pytest.raises(Corrupt) as error:
        file_index.mark()

    assert "key_index_corrupt" == error.value.code


def test_a_link_in_place_of_a_folder_is_refused(file_index: FileKeyIndex, root: Path, tmp_path: Path) -> None:
    """Nothing below a home may lead out of it."""
    (root / "keys").symlink_to(tmp_path)
    with pytest.raises(Refused) as error:
        file_index.take(1, claim())

    assert "home_link_refused" == error.value.code


@pytest.mark.parametrize("name", ["open", "write", "fsync", "link", "mkdir"])
def test_a_claim_that_the_machine_refuses_is_not_acknowledged(file_index: FileKeyIndex, name: str) -> None:
    """Nothing may start on it; whether its file is there is another question."""
    with failing_call(name), pytest.raises(Storage):
        file_index.take(1, claim())

    assert file_index.last(DIGEST, "pay") in (None, (1, claim()))


def test_a_claim_costs_two_syncs(file_index: FileKeyIndex) -> None:
    """Its content and its name; the folders are met once."""
    file_index.take(1, claim())
    counted = count_calls(lambda: file_index.take(2, claim("r2")))

    assert {"fsync": 2, "link": 1} == {name: counted[name] for name in ("fsync", "link")}
    assert 0 == counted["mkdir"]


def test_a_key_that_was_free_a_thousand_times_is_found_by_halving(file_index: FileKeyIndex, root: Path) -> None:
    """A payment that is declined every hour must not make each try slower."""
    file_index.take(1, claim())
    [first] = root.glob("keys/*/*-1.json")
    for number in range(2, 1000):
        os.link(first, first.with_name(first.name.replace("-1.json", f"-{number}.json")))
    file_index.take(1000, claim("r1000"))
    counted = count_calls(lambda: file_index.last(DIGEST, "pay"))

    assert (1000, claim("r1000")) == file_index.last(DIGEST, "pay")
    assert counted["open"] == 1
    assert counted["lstat"] < 100


def count_calls(deed: Callable[[], object]) -> Counter[str]:
    """How often each function of the system was called."""
    counted = Counter[str]()

    def note(frame: Any, event: str, called: Any) -> None:
        if event == "c_call" and getattr(called, "__module__", "") == "posix":
            counted[called.__name__] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        deed()
    finally:
        sys.setprofile(before)
    return counted


def test_struck_between_any_two_lines_a_number_has_one_claim_or_none(root: Path) -> None:
    """Ctrl-C and a lack of memory have no good moment; another process goes on from what is there."""
    strikes, struck = Strikes(KeyboardInterrupt), 0
    for each in range(400):
        index, key = FileKeyIndex(root), sha256(b"%d" % each).hexdigest()
        mine = claim(sha256=key)

        def deed(index: FileKeyIndex = index, mine: Claim = mine) -> object:
            return index.take(1, mine)

        fate = strikes.strike(deed)
        found = FileKeyIndex(root).last(key, "pay")
        assert found in (None, (1, mine))
        number = 1 if found is None else 2
        assert FileKeyIndex(root).take(number, claim("r2", sha256=key))
        if fate == "spared":
            break
        struck += 1

    assert struck > 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_dying_at_any_call_of_the_system_leaves_a_number_with_one_claim_or_none(root: Path) -> None:
    """A kill strikes between two calls; whatever it leaves, another process reads it and goes on."""
    left = Counter[str]()
    for each in range(1, 60):
        key = sha256(b"%d" % each).hexdigest()
        mine = claim(sha256=key)
        died = die_in_child(each, lambda mine=mine: FileKeyIndex(root).take(1, mine))  # type: ignore[misc]  # bound now
        found = FileKeyIndex(root).last(key, "pay")
        left["nothing" if found is None else "claim"] += 1
        assert found in (None, (1, mine))
        assert FileKeyIndex(root).take(1 if found is None else 2, claim("r2", sha256=key))
        if not died:
            break

    assert left["nothing"] > 5
    assert left["claim"] > 2


def die_in_child(at: int, deed: Callable[[], object]) -> bool:
    """Do it in a child that dies at its n-th call of the system; did it die?"""
    child = os.fork()
    if child == 0:
        left = at

        def strike(frame: Any, event: str, called: Any) -> None:
            nonlocal left
            if event == "c_call" and getattr(called, "__module__", "") == "posix":
                left -= 1
                if left == 0:
                    os._exit(9)

        sys.setprofile(strike)
        try:
            deed()
        except ClewError:
            os._exit(1)
        sys.setprofile(None)
        os._exit(0)
    return os.waitpid(child, 0)[1] != 0


def crowded(root: Path, count: int) -> list[str]:
    """An index of so many keys: every name is there, and names of a folder share a file where nobody looks."""
    digests = [sha256(b"key-%d" % number).hexdigest() for number in range(count)]
    tool, first = sha256(b"pay").hexdigest()[:16], dict[str, Path]()
    for digest in digests:
        path = root / "keys" / digest[:2] / f"{digest}-{tool}-1.json"
        if digest[:2] in first:
            os.link(first[digest[:2]], path)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(claim(sha256=digest)))
        first[digest[:2]] = path
    return digests


@pytest.mark.parametrize("count", [1_000, 20_000, pytest.param(1_000_000, marks=pytest.mark.journeys)])
def test_a_lookup_costs_the_same_among_any_number_of_keys(file_index: FileKeyIndex, root: Path, count: int) -> None:
    """One claim is opened, two names are looked at, no folder is listed: counted, for times say little here."""
    crowded(root, count)
    file_index.take(1, claim())
    counted = count_calls(lambda: file_index.last(DIGEST, "pay"))

    assert (1, 1, 0) == (counted["open"], counted["read"] + counted["pread"], counted["listdir"])
    assert counted["lstat"] <= 12
    # A million names are not left to whoever cleans up behind the tests.
    shutil.rmtree(root / "keys")


def test_a_lookup_without_a_tool_lists_one_folder_of_256(file_index: FileKeyIndex, root: Path) -> None:
    """The tool's name is seldom known to who looks for an order."""
    crowded(root, 2_000)
    file_index.take(1, claim())
    counted = count_calls(lambda: file_index.of_key(DIGEST))

    assert (1, 1) == (counted["listdir"], counted["open"])


def test_what_others_put_beside_the_claims_is_no_claim(file_index: FileKeyIndex, root: Path) -> None:
    """A note of a person, and the mark of the index itself; what is listed is what may stop an effect."""
    file_index.complete("m1", "-")
    file_index.take(1, claim())
    (root / "keys" / DIGEST[:2] / "notes.json").write_text("{}")

    assert [claim()] == list(file_index.claims())
