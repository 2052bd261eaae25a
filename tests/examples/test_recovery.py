"""The example of a write that is refused first: every command of it, as a process of its own."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "recovery"


def test_a_denied_write_happens_once_when_it_is_approved() -> None:
    """#249: deny, paused; resume and approve: one checkpoint, one committed receipt, one change; no further resume."""
    done = subprocess.run(
        [sys.executable, "demo.py"], cwd=EXAMPLE, capture_output=True, text=True, check=False, timeout=240
    )

    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.endswith("Denied, nothing happened. Approved, it happened once.\n")
