"""A home with runs as a user has them, a place for a journal that is sick, and every door that must refuse it."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.cli.shell import Done, Shell

CASES = Path(os.environ.get("CLEW_CASES", Path(__file__).parents[3] / "shared" / "cases")) / "files"
SICK = "sick-1"
WHO = ("--by", "ann", "--reason", "looked")

Typed = Callable[..., Done]

# Each door of the command that takes a run: the command, and what is typed behind the run.
LOOKING: dict[str, tuple[str, ...]] = {
    "show": (), "show --log": ("--log",), "show --effects": ("--effects",), "verify": (),
}  # fmt: skip
ACTING: dict[str, tuple[str, ...]] = {
    "resume": ("--agent", "agent.py:settle"),
    "resume --dry-run": ("--agent", "agent.py:settle", "--dry-run"),
    "settle": ("pay-1", "did-not-happen", *WHO),
    "abort": WHO,
    "pause": WHO,
    "unlock": ("--nonce", "n1", *WHO),
}
DOORS = LOOKING | ACTING


def case(name: str) -> bytes:
    """The bytes of a real file, which is left alone."""
    path = CASES / name
    if not path.exists():
        pytest.skip("the real files of the cases are not on this machine; CLEW_CASES names their folder")
    return path.read_bytes()


@clew.tool(effect="external")
def pay(order: str) -> str:
    return f"T-{order}"


def stumbling(run: clew.SyncRun, prompt: str) -> str:
    """Pays, and raises before it returns: the run pauses and may go on."""
    for order in prompt.split():
        run.call(pay, order=order)
    raise LookupError("a bug")


def settling(run: clew.SyncRun, prompt: str) -> str:
    """The same agent, mended."""
    return ", ".join(run.call(pay, order=order) for order in prompt.split())


STUMBLING = clew.agent(tools=[pay], name="settle")(stumbling)
SETTLING = clew.agent(tools=[pay], name="settle")(settling)


class Ward:
    """A home with a run that is paused in the middle: `sick-1`, whose bytes a test may spoil."""

    def __init__(self, folder: Path) -> None:
        self.home = clew.Home(folder / ".clew", takeover="operator")
        self.home.run_sync(STUMBLING, "1 2", run_id=SICK, signals=False)
        self.journal = self.path(SICK)
        self.sound = self.journal.read_bytes()

    def path(self, run_id: str) -> Path:
        return Path(self.home.reader.store.locate(run_id))

    def run_well(self) -> Path:
        """Another run, `well-1`, that is done; its journal."""
        self.home.run_sync(SETTLING, "1 2", run_id="well-1", signals=False)
        return self.path("well-1")

    @property
    def lines(self) -> list[bytes]:
        """The sound journal, line by line, each with its LF."""
        return self.sound.splitlines(keepends=True)

    def spoil(self, data: bytes) -> None:
        """Put these bytes in the place of the journal."""
        self.journal.unlink()
        self.journal.write_bytes(data)

    def implant(self, run_id: str, data: bytes) -> None:
        """A journal of this name, wherever its bytes come from; it never had a head."""
        self.path(run_id).write_bytes(data)

    def forget_head(self) -> None:
        """As after a crash in the very first leg, or in a copy of the journal alone."""
        (self.journal.with_suffix("") / "head.json").unlink()

    def resume(self) -> clew.RunResult:
        """Let the mended agent go on."""
        return self.home.resume_sync(SICK, SETTLING, signals=False)


def knock(typed: Typed, door: str, run_id: str = SICK) -> Done:
    """Try one door, asking for JSON so that an error is a line of it."""
    return typed(door.split(maxsplit=1)[0], run_id, *DOORS[door], "--json")


def codes_at(typed: Typed, doors: Iterable[str] = DOORS, run_id: str = SICK) -> set[tuple[int, str]]:
    """What all these doors say, exit code and error code."""
    said = [knock(typed, door, run_id) for door in doors]
    return {(done.code, done.error["code"] if done.code else "") for done in said}


def untouched(folder: Path, deed: Callable[[], Any]) -> bool:
    """Do it; is every byte and every modification time below the folder as it was?"""
    shell = Shell(folder)
    before = shell.bytes_and_times()
    deed()
    return before == shell.bytes_and_times()
