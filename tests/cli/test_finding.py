"""`clew find` as it is typed."""

from pathlib import Path

import pytest

from tests.cli.shell import Shell

KEYED = """
import clew

@clew.tool(effect="external", key=lambda order, **_: order)
def pay(call: clew.Call, order):
    return {"transfer": f"T-{order}"}

@clew.agent(tools=[pay])
def settle(run, prompt):
    for order in prompt.split():
        run.call(pay, order=int(order))
"""


@pytest.fixture
def paid(shell: Shell) -> Shell:
    """A home in which two orders were paid."""
    (shell.folder / "agent.py").write_text(KEYED, "utf-8")
    shell("run", "agent.py:settle", "1042 7", "--run-id", "r1")
    return shell


def test_the_run_that_has_a_key_is_found(paid: Shell) -> None:
    """By the number that the customer reads out."""
    done = paid("find", "1042")

    assert (0, "pay 1042: happened", True) == (done.code, done.out.splitlines()[0], '"transfer":"T-1042"' in done.out)


def test_a_row_is_json(paid: Shell) -> None:
    """A program reads the run and the answer."""
    [row] = paid("find", "1042", "--tool", "pay", "--json").json

    assert ("r1", "committed", {"transfer": "T-1042"}) == (row["run"], row["state"], row["answer"]["value"])


@pytest.mark.parametrize("words", [("8",), ("1042", "--tool", "ship")], ids=["key", "tool"])
def test_a_key_that_nobody_has_ends_with_ten(paid: Shell, words: tuple[str, ...]) -> None:
    """For a script that asks before it starts something by hand."""
    done = paid("find", *words, "--json")

    assert (10, "key_not_held", "") == (done.code, done.error["code"], done.out)


def test_json_may_be_typed_in_any_spelling(shell: Shell) -> None:
    """`[1, 2]` and `[1,2]` are one key."""
    (shell.folder / "agent.py").write_text(KEYED.replace("int(order)", "[int(order), 'a']"), "utf-8")
    shell("run", "agent.py:settle", "7", "--run-id", "r1")

    assert [0, 0] == [shell("find", '[7, "a"]').code, shell("find", '[7,"a"]').code]


def test_a_home_without_keys_says_so(shell: Shell) -> None:
    """It is not the same as a key that is free."""
    shell("run", "agent.py:settle", "1042")
    done = shell("find", "1042", "--json")

    assert (10, "no_key_index") == (done.code, done.error["code"])


@pytest.mark.parametrize("words", [(), ("1042", "--rebuild"), ("--rebuild", "--tool", "pay")], ids=str)
def test_a_key_or_a_rebuild(paid: Shell, words: tuple[str, ...]) -> None:
    """One of the two is meant."""
    done = paid("find", *words, "--json")

    assert (2, "invalid_command_line") == (done.code, done.error["code"])


def test_an_index_is_rebuilt(paid: Shell) -> None:
    """After somebody removed what looked like a cache."""
    for path in (paid.folder / ".clew" / "keys").rglob("*.json"):
        path.unlink()
    done = paid("find", "--rebuild")

    assert (0, "1 run read: 2 keys held, 2 added to the index") == (done.code, done.out.splitlines()[0])
    assert 0 == paid("find", "7").code


def test_a_rebuild_beside_a_damaged_journal_ends_with_twelve(paid: Shell) -> None:
    """Which keys it has nobody knows, so the index is not complete."""
    Path(paid.folder / ".clew" / "keys" / "index.json").unlink()
    journal = paid.folder / ".clew" / "runs" / "r1.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"tool_call", b"tool_cbll", 1))
    done = paid("find", "--rebuild", "--json")

    assert (12, False, "r1") == (done.code, done.json["complete"], done.json["unreadable"][0]["run"])
