"""A restore that is killed at its n-th file operation, for real, and typed again; run as a process of its own.

python restorer.py FOLDER FIRST EVERY

Prints a line of JSON for each death: where it came, and what was wrong afterwards. Ends when a restore lives through.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from clew.cli import main
from tests.runtime.keeper import RUN, Keeper, Standing, standing

FILES: Final = 50
OPERATIONS: Final = frozenset(
    {
        "open", "write", "pwrite", "writev", "fsync", "fdatasync", "rename", "replace", "link", "symlink", "unlink",
        "remove", "mkdir", "rmdir", "chmod", "fchmod", "truncate", "ftruncate", "close", "utime",
    }
)  # fmt: skip


def born(folder: Path) -> None:
    """Fifty paths of every kind."""
    (folder / "tree").mkdir(mode=0o750)
    for number in range(FILES):
        place = folder / f"f{number:02}"
        match number % 5:
            case 0:
                place.write_bytes(b"old %d\r\n" % number + bytes(range(number)))
            case 1:
                place.symlink_to(f"old-{number}")
            case 2:
                (folder / "tree" / place.name).write_bytes(b"leaf %d" % number)
            case 3:
                place.write_bytes(b"mode")
                place.chmod(0o600)


def paths() -> list[str]:
    return ["tree", *(f"tree/f{number:02}" if number % 5 == 2 else f"f{number:02}" for number in range(FILES))]


def work(folder: Path) -> None:
    """What the call does: other bytes, other links, other modes and kinds, and a folder that goes."""
    for number in range(FILES):
        place = folder / f"f{number:02}"
        match number % 5:
            case 0 if number % 2:
                place.write_bytes(b"new")
            case 0:
                place.unlink()
                place.mkdir()
            case 1:
                place.unlink()
                place.symlink_to("new") if number % 2 else place.write_bytes(b"was a link")
            case 3:
                place.chmod(0o755)
            case 4:
                place.write_bytes(b"made by the call")
    shutil.rmtree(folder / "tree")


def scene(folder: Path) -> tuple[Keeper, Standing]:
    """A run that changed fifty paths, and how they stood before."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    born(folder)
    before, keeper = standing(folder), Keeper(folder)
    keeper.call(paths(), lambda: work(folder))
    keeper.end()
    return keeper, before


def in_child(deed: Callable[[], int]) -> int:
    """Do it in a process of its own; its exit code, or minus the signal that ended it."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(deed())
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def restore(folder: Path, die_at: int = 0) -> int:
    """Type the command; die right before its n-th file operation."""
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    if die_at:
        sys.setprofile(Counter(die_at))
    return main(["restore", RUN, "k1", "--by", "ann", "--home", str(folder / ".clew")])


class Counter:
    """Looks at each call of the system, and ends the process at one of them."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self, frame: Any, event: str, called: Any) -> None:
        if event == "c_call" and called.__module__ == "posix" and called.__name__ in OPERATIONS:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def judged(folder: Path, at: int) -> dict[str, Any]:
    """One death and what follows: nothing is there that was not before or after, and the next restore ends it."""
    keeper, before = scene(folder)
    died = in_child(lambda: restore(folder, at)) == -signal.SIGKILL
    mine = _person(folder, before, at) if died and at % 3 == 0 else {}
    code = in_child(lambda: restore(folder))
    now = standing(folder)
    wrong = {name for name in {*before, *now} if now.get(name) != mine.get(name, before.get(name))}
    begun = keeper.home.reader.see(RUN).state.restores.begun
    expected = 4 if mine else 0
    problem = f"paths {sorted(wrong)[:3]}, exit {code}, unended {begun is not None}"
    fine = not wrong and code == expected and begun is None
    return {"at": at, "died": died, "problem": "" if fine else problem}


def _person(folder: Path, before: Standing, at: int) -> Standing:
    """A person saves a file between the death and the next restore; that it stays is what counts."""
    name = f"f{(at // 3 * 10 + 5) % FILES:02}"
    (folder / name).write_bytes(b"mine")
    return {os.fsencode(name): ("file", b"mine", (folder / name).stat().st_mode & 0o777)}


def run(folder: Path, first: int, every: int) -> None:
    # What the command imports, it imports here: each child has it, and none dies in the middle of that.
    with redirect_stdout(StringIO()):
        main(["restore", "--help"])
    at, died = first, True
    while died:
        found = judged(folder, at)
        print(json.dumps(found), flush=True)
        at, died = at + every, found["died"]


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
