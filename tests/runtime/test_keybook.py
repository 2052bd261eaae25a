"""Who has a key, and an index that is built anew, in a home of files."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import Corrupt, NotFound
from clew.runtime.keybook import KeyBook
from clew.stores.keys import FileKeyIndex
from clew.stores.memory import MemoryBlobStore, MemoryRunStore
from tests.runtime.keyed import Firm, held, pay_in, pay_in_raising, unfunded


@pytest.fixture
def home(tmp_path: Path) -> clew.Home:
    return clew.Home(tmp_path / ".clew", takeover="proven")


def test_a_secret_key_reaches_no_file(home: clew.Home) -> None:
    """Neither the journal nor the index may hold what is hidden in the arguments."""
    tool = Firm().tool(key=lambda password, **_: password)

    def agent(run: Any, prompt: Any) -> Any:
        run.call(tool, "1042", password="hunter2-hunter2")

    home.run_sync(clew.Agent(agent, tools=[tool]), None, run_id="r1", signals=False)
    [row] = home.find_key("hunter2-hunter2")

    assert "[redacted:key]" == row["businessKey"]
    assert [] == [path for path in home.path.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]


def test_who_has_a_key_is_found_with_its_answer(home: clew.Home) -> None:
    """For the person who looks for an order, and for the program that needs its transfer."""
    pay_in(home, "r1")
    [row] = home.find_key(1042)

    assert ("r1", "pay-1", "committed", "r1:pay-1:c1") == (row["run"], row["step"], row["state"], row["key"])
    assert (None, "T-") == (row["answer"]["error"], row["answer"]["value"]["transfer"][:2])
    assert [row] == home.find_key("1042", tool="pay")
    assert [] == home.find_key("1042", tool="ship")


def test_a_key_that_became_free_is_nobodys(home: clew.Home) -> None:
    """A claim alone holds nothing."""
    pay_in(home, "r1", then=unfunded)

    assert [] == home.find_key("1042")


def test_a_home_without_an_index_says_so(home: clew.Home) -> None:
    """It is not the same as a key that is free."""
    pay_in(home, "r1", key=None)
    with pytest.raises(NotFound) as error:
        home.find_key("1042")

    assert "no_key_index" == error.value.code


def test_looking_for_a_key_changes_nothing(home: clew.Home) -> None:
    """Readers never write and never lock (promise 11)."""
    pay_in(home, "r1")
    before = {path: path.stat().st_mtime_ns for path in home.path.rglob("*")}
    home.find_key("1042")
    home.find_key("1043")

    assert before == {path: path.stat().st_mtime_ns for path in home.path.rglob("*")}


def test_an_index_that_was_removed_is_built_from_the_journals_before_anything_starts(home: clew.Home) -> None:
    """Who empties a cache must not pay twice for it."""
    pay_in(home, "r1")
    shutil.rmtree(home.path / "keys")
    second = pay_in(home, "r2")

    assert [held("r1")] == second.output


@pytest.mark.parametrize("part", ["*/*.json", "*.json"], ids=["claims", "mark"])
def test_a_rebuild_finds_what_was_removed(home: clew.Home, part: str) -> None:
    """By the journals, which are the truth."""
    pay_in(home, "r1", "1042", "7")
    for path in (home.path / "keys").glob(part):
        path.unlink()
    report = home.rebuild_keys()
    again = home.rebuild_keys()

    assert (2, True, 0 if part == "*.json" else 2) == (report["held"], report["complete"], len(report["added"]))
    assert ({}, [held("r1")]) == (again["counts"], pay_in(home, "r2").output)


def test_with_an_unreadable_journal_and_no_index_nothing_with_a_key_starts(home: clew.Home) -> None:
    """It may hold the very key; which, nobody can tell until it is mended."""
    pay_in(home, "r1")
    pay_in(home, "r2", "7")
    shutil.rmtree(home.path / "keys")
    journal = home.path / "runs" / "r1.jsonl"
    kept = journal.read_bytes()
    journal.write_bytes(kept.replace(b"tool_call", b"tool_cbll", 1))
    refused = pay_in_raising(home, "r3")
    report = home.rebuild_keys()
    journal.write_bytes(kept)
    after = pay_in(home, "r4")

    assert ("key_index_unusable", False, "r1") == (refused.code, report["complete"], report["unreadable"][0]["run"])
    assert [held("r1")] == after.output


def test_two_journals_with_one_key_are_told(home: clew.Home) -> None:
    """It was executed twice, before its tool had a key or in a home that was put together from two."""
    pay_in(home, "r1")
    shutil.rmtree(home.path / "keys")
    other = clew.Home(home.path.parent / "other", takeover="proven")
    pay_in(other, "r2")
    shutil.copy(other.path / "runs" / "r2.jsonl", home.path / "runs" / "r2.jsonl")
    report = home.rebuild_keys()

    assert [("r2", "r1")] == [(one["run"], one["other"]["run"]) for one in report["conflicts"]]


def test_a_damaged_claim_refuses_the_start_and_names_the_file(home: clew.Home) -> None:
    """Who has the key cannot be told; nothing is guessed."""
    pay_in(home, "r1")
    [path] = (home.path / "keys").glob("*/*.json")
    path.write_text("{}")
    refused = pay_in_raising(home, "r2")

    assert ("key_index_unusable", "key_claim_corrupt") == (refused.code, refused.facts["cause"])
    assert str(path) in refused.message


def test_in_a_copied_home_nothing_with_a_key_starts(home: clew.Home, tmp_path: Path) -> None:
    """The original may have the key by now."""
    pay_in(home, "r1")
    shutil.copytree(home.path, tmp_path / "copy")
    refused = pay_in_raising(clew.Home(tmp_path / "copy"), "r2", "7")

    assert "home_copied" == refused.code


def test_beside_a_store_of_ones_own_an_index_must_be_named(tmp_path: Path) -> None:
    """One of ours might lie where that store's other processes never look."""
    home = clew.Home(tmp_path / ".clew", store=MemoryRunStore(), blobs=MemoryBlobStore())
    refused = pay_in_raising(home, "r1")

    assert ("key_index_unusable", False) == (refused.code, (tmp_path / ".clew").exists())


def test_a_lookup_opens_no_journal_but_the_holders(home: clew.Home) -> None:
    """Among a million receipts the answer is as near as among ten."""
    for number in range(8):
        pay_in(home, f"r{number}", str(number))
    opened: list[str] = []
    parts = home._parts

    class Watching(type(parts.store)):  # type: ignore[misc]  # whatever the home has
        def read(self, run_id: str) -> Any:
            opened.append(run_id)
            return super().read(run_id)

    found = KeyBook(FileKeyIndex(home.path), Watching(home.path), parts.blobs, parts.clock).find("5")

    assert ("r5", {"r5"}) == (found[0]["run"], set(opened))


def test_corrupt_is_told_by_the_reader(home: clew.Home) -> None:
    """`find` has no answer to give, and says where it is stuck."""
    pay_in(home, "r1")
    [path] = (home.path / "keys").glob("*/*.json")
    path.write_text("{}")
    with pytest.raises(Corrupt) as error:
        home.find_key("1042")

    assert "key_claim_corrupt" == error.value.code


def test_a_home_in_memory_knows_its_keys() -> None:
    """For the tests of an agent whose tools have keys."""
    home = clew.Home.memory()
    pay_in(home, "r1")

    assert (["r1"], [held("r1")]) == ([row["run"] for row in home.find_key("1042")], pay_in(home, "r2").output)
