"""A process that runs the loop example and can be told where to die. Started by the journeys, never imported.

    fixer.py run|resume RUN [KILL]

KILL is `before:N` or `after:N`, the N-th append of this process; as in `victim.py`, whose deaths these are.
"""

import importlib
import sys
from pathlib import Path

import clew

# The copies of the example in the current folder.
sys.path.insert(0, str(Path.cwd()))
fix = importlib.import_module("fix")
sys.modules["agent"] = fix
victim = importlib.import_module("victim")


def main() -> int:
    """Run or resume; the exit code is the run's."""
    deed, run_id, *kill = sys.argv[1:]
    store = victim.DeadlyStore(Path(".clew"))
    store.deadly = victim.Deadly(kill[0] if kill else "")
    home = clew.Home(".clew", takeover="operator", store=store)
    if deed == "run":
        return home.run_sync(fix.fix, "fix wallet", run_id=run_id).exit_code
    return home.resume_sync(run_id, fix.fix).exit_code


if __name__ == "__main__":
    sys.exit(main())
