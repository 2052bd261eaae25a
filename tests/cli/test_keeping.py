"""`clew prune` and the artifacts of `clew show`, as they are typed."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shell import Done, Shell

KEEPING = r"""
import clew

@clew.agent(secrets=["correct-horse"])
def keep(run, prompt):
    run.artifact("a.txt", "hello")
    run.artifact("b.bin", b"\0\1\r\n\xff" * 1000)
    try:
        run.artifact("c", "correct-horse")
    except clew.Refused:
        pass
    return "done"
"""
BINARY = b"\0\1\r\n\xff" * 1000
Type = Callable[..., Done]


@pytest.fixture
def kept(shell: Shell) -> Shell:
    """A home with a run that kept two artifacts."""
    (shell.folder / "agent.py").write_text(KEEPING, "utf-8")
    shell("run", "agent.py:keep", "--run-id", "r1")
    return shell


def raw(shell: Shell, *words: str) -> "subprocess.CompletedProcess[bytes]":
    """The command, its answer as bytes."""
    command = [sys.executable, "-m", "clew.cli", *words]
    return subprocess.run(command, cwd=shell.folder, env=shell.env, capture_output=True, check=False, timeout=60)


def test_the_artifacts_of_a_run_are_listed(kept: Shell) -> None:
    """Those that were kept out as well."""
    lines = kept("show", "r1", "--artifacts").out.splitlines()

    assert ["a.txt", "b.bin", "c"] == [line.split()[0] for line in lines]
    assert ("hello" in lines[0], "NOT KEPT" in lines[2]) == (True, True)


def test_the_list_is_json_too(kept: Shell) -> None:
    """The rows of the snapshot."""
    rows = kept("show", "r1", "--artifacts", "--json").json

    assert [("a.txt", "stored", 5), ("b.bin", "stored", 5000), ("c", "blocked", 13)] == [
        (row["name"], row["status"], row["sizeBytes"]) for row in rows
    ]


def test_one_goes_to_stdout_byte_for_byte(kept: Shell) -> None:
    """So that it can be piped anywhere."""
    done = raw(kept, "show", "r1", "--artifact", "b.bin")

    assert (0, BINARY, b"") == (done.returncode, done.stdout, done.stderr)


def test_one_is_saved_into_a_new_file_and_nothing_is_replaced(kept: Shell) -> None:
    """The second time the first one stands."""
    first = kept("show", "r1", "--artifact", "b.bin", "-o", "out.bin")
    (kept.folder / "mine.txt").write_text("mine")
    second = kept("show", "r1", "--artifact", "a.txt", "--output", "mine.txt", "--json")

    assert (0, BINARY) == (first.code, (kept.folder / "out.bin").read_bytes())
    assert (4, "file_exists", "mine") == (second.code, second.error["code"], (kept.folder / "mine.txt").read_text())


@pytest.mark.parametrize(
    ("words", "code", "exit_"),
    [
        (("--artifact", "x"), "unknown_artifact", 10), (("--artifact", "../a"), "unknown_artifact", 10),
        (("--artifact", "c"), "artifact_blocked", 4), (("--output", "f"), "invalid_command_line", 2),
        (("--artifact", "a.txt", "-o", "no/folder/f"), "invalid_output", 2),
    ],
)  # fmt: skip
def test_what_cannot_be_given_is_refused(kept: Shell, words: tuple[str, ...], code: str, exit_: int) -> None:
    """With a code and a next step, and no file is left."""
    done = kept("show", "r1", *words, "--json")

    assert (exit_, code, "") == (done.code, done.error["code"], done.out)
    assert not (kept.folder / "f").exists()


def test_a_damaged_one_leaves_no_file_and_no_bytes(kept: Shell) -> None:
    """Half an artifact is none."""
    blob = next(
        path for path in (kept.folder / ".clew" / "blobs").rglob("*") if path.is_file() and path.stat().st_size == 5
    )
    blob.write_bytes(b"hellO")
    saved = kept("show", "r1", "--artifact", "a.txt", "-o", "f", "--json")
    piped = raw(kept, "show", "r1", "--artifact", "a.txt")

    assert (12, "blob_corrupt", False) == (saved.code, saved.error["code"], (kept.folder / "f").exists())
    assert (12, b"") == (piped.returncode, piped.stdout)


def test_a_prune_is_told_and_what_it_took_reads_as_pruned(kept: Shell) -> None:
    """The run's page and its verdict are as good as before."""
    dry = kept("prune", "--keep-days", "0", "--dry-run")
    done = kept("prune", "--keep-days", "0", "--json")
    gone = kept("show", "r1", "--artifact", "a.txt")
    verdict = kept("verify", "r1")

    assert (0, True, True) == (dry.code, dry.out.startswith("would free"), "retention" not in dry.out)
    assert (0, 2) == (done.code, done.json["went"]["retention"]["count"])
    assert (10, "", True) == (gone.code, gone.out, "[blob_pruned]" in gone.err)
    assert (0, True) == (verdict.code, "pruned" in verdict.out)


def test_a_prune_is_refused_while_a_run_goes_on(shell: Shell) -> None:
    """And the run it names ends as if nobody had asked."""
    live = shell.holding()
    done = shell("prune", "--json")
    ended = live.end()

    assert (11, "home_in_use", ["held"]) == (done.code, done.error["code"], done.error["facts"]["runs"])
    assert 0 == ended.code


@pytest.mark.parametrize(
    ("text", "size"),
    [("500", 500), ("2K", 2048), ("1.5 MiB", 3 << 19), ("1GB", 1 << 30), ("0", 0), ("2t", 2 << 40), ("7 b", 7)],
)
def test_a_quota_is_typed_as_people_type_sizes(typed: Type, tmp_path: Path, text: str, size: int) -> None:
    """Units of 1024, as disks are counted here."""
    (tmp_path / "agent.py").write_text("def done(run, prompt):\n    return 1\n")
    typed("run", "agent.py:done", "--run-id", "r1")
    typed("prune", "--quota", text, "--json")
    (tmp_path / ".clew" / "blobs" / "ab").mkdir(parents=True)
    (tmp_path / ".clew" / "blobs" / "ab" / ("ab" + "0" * 62)).write_bytes(b"1")
    typed("prune", "--quota", text)
    record = json.loads((tmp_path / ".clew" / "blobs" / "pruned" / "000001.json").read_text())

    assert size == record["asked"]["quotaBytes"]


@pytest.mark.parametrize("text", ["", "many", "-5", "1X", "1e3"])
def test_a_quota_that_is_no_size_is_refused(typed: Type, text: str) -> None:
    """Before the home is looked for."""
    done = typed("prune", "--quota", text, "--json")

    assert (2, "invalid_retention") == (done.code, done.error["code"])


def test_a_doctor_says_how_much_lies_there(kept: Shell) -> None:
    """Journals always stay; of the rest a prune may free some."""
    finding = next(each for each in kept("doctor", "--json").json["findings"] if each["about"] == "size")

    assert ("1 journal" in finding["what"], "2 blob files" in finding["what"]) == (True, True)
    assert "clew prune --dry-run" in finding["next"]
