"""The code on our pages runs as it stands there: a reader copies it before he reads on."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT

MY_BANK = '''
"""A stand-in for what the reader already calls; it keeps its books in a file."""
from collections import namedtuple
from pathlib import Path

Transfer = namedtuple("Transfer", "id reference")
BOOKS = Path("books")


def pay(order, cents, idempotency_key):
    with BOOKS.open("a") as books:
        books.write(f"{idempotency_key}\\n")
    return Transfer(f"T-{order}", idempotency_key)


def search(reference):
    return Transfer("T-found", reference) if BOOKS.exists() and reference in BOOKS.read_text() else None
'''


def blocks(page: str) -> list[str]:
    """The Python on a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)


def run_here(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A Python process in a folder of its own."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


def test_the_thirty_lines_of_the_readme_run(tmp_path: Path) -> None:
    """The first thing that a new user tries."""
    (tmp_path / "my_bank.py").write_text(MY_BANK, "utf-8")
    (tmp_path / "agent.py").write_text(blocks("README.md")[0], "utf-8")

    done = run_here(tmp_path, "agent.py")

    assert ("", 0) == (done.stderr, done.returncode)
    assert done.stdout.splitlines()[:2] == ["1042 T-1042", "1043 T-1043"]


def test_the_thirty_lines_run_by_the_command(tmp_path: Path) -> None:
    """The second of the two commands that the README names."""
    (tmp_path / "my_bank.py").write_text(MY_BANK, "utf-8")
    (tmp_path / "agent.py").write_text(blocks("README.md")[0], "utf-8")

    done = run_here(tmp_path, "-m", "clew.cli", "run", "agent.py:settle", "settle today's orders")

    assert (0, "settled") == (done.returncode, done.stdout.splitlines()[-1])
    assert len((tmp_path / "books").read_text("utf-8").splitlines()) == 2


@pytest.mark.parametrize("name", ["completed", "settled", "second_attempt", "paused"])
def test_the_check_on_the_format_page_passes_a_journal(tmp_path: Path, name: str) -> None:
    """A stranger can check our files with what any machine has."""
    journal = ROOT / "tests" / "journals" / f"{name}.jsonl"
    run_id = journal.read_text("utf-8").split('"runId":"')[1].split('"')[0]
    (tmp_path / f"{run_id}.jsonl").write_bytes(journal.read_bytes())
    (tmp_path / "check.py").write_text(blocks("docs/format.md")[0], "utf-8")

    done = run_here(tmp_path, "check.py", f"{run_id}.jsonl")

    assert ("", 0) == (done.stderr, done.returncode)


def test_the_check_on_the_format_page_sees_one_changed_byte(tmp_path: Path) -> None:
    """A check that passes everything would be worse than none."""
    journal = (ROOT / "tests" / "journals" / "completed.jsonl").read_bytes()
    (tmp_path / "01JD4KQ7Z8.jsonl").write_bytes(journal.replace(b'"cents":4200', b'"cents":4201', 1))
    (tmp_path / "check.py").write_text(blocks("docs/format.md")[0], "utf-8")

    done = run_here(tmp_path, "check.py", "01JD4KQ7Z8.jsonl")

    assert done.returncode == 1
