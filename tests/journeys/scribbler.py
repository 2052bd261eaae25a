"""A process that writes a note by a tool and dies where it is told. Started by the journeys, never imported.

    scribbler.py run|resume MOMENT

MOMENT is `start`, `middle`, `done` (in the body: before, amid and behind its write) or `never`.
"""

import os
import signal
import sys
from pathlib import Path

import clew

TEXT = "the whole note\n"


def die_at(moment: str) -> None:
    """As if the power of this process were cut."""
    if sys.argv[2] == moment:
        os.kill(os.getpid(), signal.SIGKILL)


@clew.tool(
    effect="workspace", paths=("path",), expects=lambda before, path: clew.Expected({path: TEXT}, f"{path} is written")
)
def note(path: str) -> str:
    """Write a note in two halves, which is no way to write one."""
    with Path("starts").open("a", encoding="ascii") as starts:
        starts.write("started\n")
    die_at("start")
    Path(path).write_text(TEXT[:4], encoding="ascii")
    die_at("middle")
    Path(path).write_text(TEXT, encoding="ascii")
    die_at("done")
    return f"{path} is written"


@clew.agent(tools=[note])
def scribble(run: clew.SyncRun, prompt: str) -> str:
    """One note, and what was said of it."""
    return str(run.call(note, path="note"))


if __name__ == "__main__":
    home = clew.Home(".clew", takeover="proven")
    deed = home.run_sync if sys.argv[1] == "run" else None
    if deed is not None:
        sys.exit(deed(scribble, "go", run_id="n1").exit_code)
    found = home.resume_sync("n1", scribble)
    print(found.operation.state, found.reason, found.output)  # what the journey reads
    sys.exit(found.exit_code)
