"""`clew diff` and `clew restore`: what they say, and how they end."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.cli.restoring import MOST_LINES, exit_code
from tests.cli.shell import Done
from tests.runtime.keeper import RUN, Keeper, closed
from tests.runtime.test_restoring import cut_off, three

Typed = Callable[..., Done]


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    (tmp_path / "a").write_bytes(b"one\ntwo\n")
    return Keeper(tmp_path)


def test_a_diff_shows_each_checkpoint(keeper: Keeper, typed: Typed) -> None:
    """#145: whose it is, the text, and whether a restore would put it back."""
    keeper.edit("a", b"one\n2\n")
    keeper.edit("b", b"new\n")
    keeper.end()
    done = typed("diff", RUN)

    assert 0 == done.code
    assert ["k1  edit  edit-1, attempt 1", "k2  edit  edit-2, attempt 1"] == [
        line.rpartition("  ")[0] for line in done.out.splitlines() if line.startswith("k")
    ]
    assert "changed  a  (stands as the call left it)\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n" in done.out
    assert "--- /dev/null\n+++ b/b\n" in done.out


def test_a_diff_of_one_checkpoint_is_that_one(keeper: Keeper, typed: Typed) -> None:
    """As JSON: with every state."""
    keeper.edit("a", b"one\n")
    keeper.edit("b", b"new\n")
    keeper.end()
    found = typed("diff", RUN, "k2", "--json").json

    assert (RUN, ["k2"], ["b"]) == (
        found["runId"],
        [each["checkpointId"] for each in found["checkpoints"]],
        [path["path"] for path in found["checkpoints"][0]["paths"]],
    )


def test_a_run_without_checkpoints_says_so(keeper: Keeper, typed: Typed) -> None:
    """On stderr, for the answer is nothing."""
    keeper.begin()
    keeper.end("paused")
    done = typed("diff", RUN)

    assert (0, "", True) == (done.code, done.out, "has no checkpoint" in done.err)


def test_a_restore_says_of_each_path_what_became_of_it(keeper: Keeper, typed: Typed) -> None:
    """4, when one was left alone: some of what was asked for is not so."""
    name = keeper.call(["a", "b"], keeper.writing("a", "b"))
    keeper.end()
    (keeper.folder / "b").write_bytes(b"mine")
    done = typed("restore", RUN, name, "--by", "ann")

    assert (4, "restored  a\nconflict  b  (somebody changed it since)\n") == (done.code, done.out)
    assert f"{name}: 1 restored, 1 conflict\nnext: clew diff {RUN} {name}  shows" in done.err
    assert (b"one\ntwo\n", b"mine") == ((keeper.folder / "a").read_bytes(), (keeper.folder / "b").read_bytes())


def test_a_restore_of_a_named_path_as_json(keeper: Keeper, typed: Typed) -> None:
    """0: what was asked for is so; who asked is whoever is logged in."""
    name = keeper.call(["a", "b"], keeper.writing("a", "b"))
    keeper.end()
    done = typed("restore", RUN, name, "a", "--json")
    who = keeper.home.reader.store.identity()["user"]

    assert (0, [{"path": "a", "outcome": "restored"}], {who}) == (
        done.code,
        done.json["paths"],
        {each["by"] for each in keeper.restored},
    )


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_a_name_that_is_not_utf_8_is_shown_and_taken(keeper: Keeper, typed: Typed) -> None:
    """C61: on a screen it is written out, on the command line it is what the shell hands over."""
    path = os.fsdecode(b"\xff")
    name = keeper.edit(path, b"call")
    keeper.end()
    shown, done = typed("diff", RUN).out, typed("restore", RUN, name, path)

    assert (True, 0, "restored  \\udcff\n", False) == (
        "b/\\udcff" in shown,
        done.code,
        done.out,
        (keeper.folder / path).exists(),
    )


def test_a_dry_run_answers_the_question(keeper: Keeper, typed: Typed) -> None:
    """0, whatever the answer, and nothing is touched."""
    name = keeper.edit("a", b"call")
    keeper.end()
    (keeper.folder / "a").write_bytes(b"mine")
    done = typed("restore", RUN, name, "--dry-run")

    assert (0, True, []) == (done.code, "it would be: 1 conflict" in done.err, keeper.restored)


@pytest.mark.parametrize(
    ("words", "text", "content"),
    [
        (("k1",), "conflict  a  (k2 changed it later)", b"2\n"),
        (("k1", "--later"), "restored  a", b"one\ntwo\n"),
        (("k2", "--merge"), "restored  a", b"1\n"),
    ],
)
def test_what_is_typed_is_what_is_done(
    keeper: Keeper, typed: Typed, words: tuple[str, ...], text: str, content: bytes
) -> None:
    """Each switch reaches the deed."""
    keeper.edit("a", b"1\n")
    keeper.edit("a", b"2\n")
    keeper.end()
    done = typed("restore", RUN, *words)

    assert (f"{text}\n", content) == (done.out, (keeper.folder / "a").read_bytes())


def test_a_run_that_died_is_taken_over_by_proof(keeper: Keeper, typed: Typed) -> None:
    """The person who types is the operator, as with settle; the run itself is not moved."""
    name = keeper.edit("a", b"call")
    keeper.end("dead")
    done = typed("restore", RUN, name)

    assert (0, "interrupted") == (done.code, keeper.home.reader.row(RUN)["shown"])


def test_a_living_run_is_refused(keeper: Keeper, typed: Typed) -> None:
    """11, and its holder is named."""
    name = keeper.edit("a", b"call")
    done = typed("restore", RUN, name, "--json")
    closed(keeper.begin())

    assert (11, "run_state_locked", os.getpid()) == (done.code, done.error["code"], done.error["facts"]["owner"]["pid"])


@pytest.mark.parametrize(("words", "code"), [(("k9",), 10), (("k1", "b"), 2), (("k 1",), 2)])
def test_what_is_not_there_is_an_error(keeper: Keeper, typed: Typed, words: tuple[str, ...], code: int) -> None:
    """DESIGN §9."""
    keeper.edit("a", b"call")
    keeper.end()

    assert code == typed("restore", RUN, *words).code


@pytest.mark.parametrize(
    ("outcomes", "dry_run", "code"),
    [
        (["restored", "unchanged", "merged"], False, 0),
        (["restored", "conflict"], False, 4),
        (["unknown"], False, 4),
        (["conflict", "failed"], False, 13),
        (["failed"], True, 0),
        ([], False, 0),
    ],
)
def test_a_restore_ends_as_its_worst_path(outcomes: list[str], dry_run: bool, code: int) -> None:
    """DESIGN §9: what the machine refused is told before what was left alone."""
    report: dict[str, Any] = {"dryRun": dry_run, "paths": [{"outcome": each} for each in outcomes]}

    assert code == exit_code(report)


def test_whoever_settles_sees_what_the_call_changed(keeper: Keeper, typed: Typed) -> None:
    """DESIGN §5, Review: the evidence is shown first; of much the beginning, and how to see the rest."""
    keeper.edit("a", b"call\n" * MOST_LINES, dies=True)
    keeper.end("dead")
    done = typed("settle", RUN, "did-not-happen", "--by", "ann", "--reason", "looked")

    assert (0, True, True, True) == (
        done.code,
        "files      checkpoint k1" in done.err,
        "-two" in done.err,
        f"… the rest by: clew diff {RUN} k1" in done.err,
    )


def test_the_list_of_effects_names_the_checkpoint(keeper: Keeper, typed: Typed) -> None:
    """From there a person finds what it changed."""
    keeper.edit("a", b"call")
    keeper.end()
    shown, found = typed("show", RUN, "--effects"), typed("show", RUN, "--effects", "--json")

    assert (True, "k1") == ("checkpoint k1" in shown.out, found.json[0]["checkpointId"])


def test_a_run_says_that_a_restore_was_cut_off(keeper: Keeper, typed: Typed) -> None:
    """And how it goes on; once it has, nothing is said any more."""
    name = three(keeper)
    cut_off(keeper, name, 1)
    shown, listed = typed("show", RUN), typed("ls")
    typed("restore", RUN, name)
    after = typed("show", RUN)

    words = f"next: clew restore {RUN} {name}"
    assert (True, True, False) == (words in shown.out, words in listed.out, "was cut off" in after.out)
