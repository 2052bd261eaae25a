"""All judges in one run: `make judges`. What each prints is kept in docs/assurance/judges.json, word for word.

Exit 1 when one of them finds what the page does not expect of it.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "assurance" / "judges.json"
BIN = Path(sys.executable).parent
BANK = re.compile(r"listening on (http://127\.0\.0\.1:\d+)")


def judged(package: str, about: str, command: list[str], *, expected: int = 0, folder: Path = ROOT) -> dict[str, Any]:
    """Run one judge's own runner; what it printed, and whether it ended as expected."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    said = [line.rstrip() for line in done.stdout.splitlines() if line.strip()]
    print(f"--- {package}: {about}", *said, f"exit {done.returncode}", sep="\n", flush=True)
    if done.returncode != expected:
        print(done.stderr, file=sys.stderr)
    return {
        "judge": package, "version": version(package), "about": about, "says": said,
        "exit": done.returncode, "expected": expected,
    }  # fmt: skip


def tampering() -> Iterator[dict[str, Any]]:
    """Nine edits behind the store's back."""
    check = [str(BIN / "agmi-check"), "--adapter"]
    yield judged(
        "agent-memory-integrity", "a home by itself; an older copy of the whole home is not seen",
        [*check, "judges.tampering:Alone"], expected=1,
    )  # fmt: skip
    yield judged(
        "agent-memory-integrity", "`clew verify RUN --against FILE`, the file kept elsewhere",
        [*check, "judges.tampering:Anchored"],
    )  # fmt: skip


def resuming() -> Iterator[dict[str, Any]]:
    """A process killed behind each effect, with a reconciler."""
    words = "from judges.resuming import conformed; found = conformed(); print(found); raise SystemExit(not found)"
    yield judged("crashresume", "each step a process, killed behind its effect", [sys.executable, "-c", words])


def chaos() -> Iterator[dict[str, Any]]:
    """The example and the command, killed at every file they touch."""
    with _bank() as address, tempfile.TemporaryDirectory() as folder:
        for about, words in (("the orders example", []), ("`clew run`, then `clew resume`", ["--command"])):
            yield judged(
                "ckpt-chaos", about,
                [
                    str(BIN / "ckpt-chaos"), "run", "--step-regex", r"going on at record (\d+)", "--max-points", "200",
                    "--result-file", "{out}/final.txt", "--work", f"{folder}/{len(words)}", "--jobs", "2",
                    "--timeout", "120", "--", sys.executable, "-m", "judges.chaos", *words, address, "{out}",
                ],
            )  # fmt: skip


@contextmanager
def _bank() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ROOT / "examples" / "orders" / "bank.py"), "--ignore-keys"]
        with subprocess.Popen(
            [*command, "--database", f"{folder}/bank.sqlite"], stdout=subprocess.PIPE, text=True
        ) as bank:
            assert bank.stdout is not None
            found = BANK.match(bank.stdout.readline())
            assert found is not None
            try:
                yield found[1]
            finally:
                bank.terminate()


def custody() -> Iterator[dict[str, Any]]:
    """Nine invariants of a runtime under faults; needs Python 3.12."""
    try:
        version("conformance")
    except PackageNotFoundError:
        print("--- conformance: NOT RUN, it needs Python 3.12 (make judges JUDGES_PYTHON=…)")
        yield {"judge": "conformance", "version": None, "about": "not run: it needs Python 3.12", "says": []}
        return
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(ROOT / "judges" / ".conformance", Path(scratch) / ".conformance")
        command, scenario = str(BIN / "conformance"), ["--scenario", "orders", "--seed", "1"]
        subprocess.run(
            [command, "record", *scenario], cwd=scratch, check=True, stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        yield judged(
            "conformance", "redelivery, death behind an effect, withheld approval", [command, "verify", *scenario],
            folder=Path(scratch),
        )  # fmt: skip


def main() -> int:
    """Hear all; 1 when one of them ended otherwise than expected."""
    found = [verdict for judge in (tampering, resuming, chaos, custody) for verdict in judge()]
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return int(any(verdict.get("exit") != verdict.get("expected") for verdict in found))


if __name__ == "__main__":
    sys.exit(main())
