"""A process that has loaded the command and forks for each line of it: real processes and real deaths, quickly.

    python -m tests.contract.door

Each line of stdin is `{"folder", "words"}`; the answer is one line `{"code", "out", "err"}`, the code negative after a
death by signal, as `subprocess` has it.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

from clew.cli import main


def answer(folder: str, words: list[str]) -> dict[str, Any]:
    """How a process of its own ended, and what it said."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if not child:
            _become(folder, words, out.fileno(), err.fileno())
        _, status = os.waitpid(child, 0)
        return {"code": os.waitstatus_to_exitcode(status), "out": _text(out), "err": _text(err)}


def _become(folder: str, words: list[str], out: int, err: int) -> None:
    """Be the command, and do not come back."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.chdir(folder)
    sys.argv = ["clew", *words]
    code = 1
    try:
        code = main(words)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _text(said: IO[bytes]) -> str:
    said.seek(0)
    return said.read().decode()


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(answer(asked["folder"], asked["words"])), flush=True)
