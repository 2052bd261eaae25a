"""Each situation of `docs/recovery.md`, made for real: a folder in which it came to that, and what a person sees."""

import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import clew
from tests.cli.shell import Done, Live
from tests.contract.hostile import RUN, Place

AGENT: Final = """
import os
import signal
from pathlib import Path

import clew
import clew.loop
from clew.toolkit import write_file


def flag(name):
    path = Path(name)
    raised = path.exists()
    path.unlink(missing_ok=True)
    return raised


def find(call):
    if Path("bank-is-closed").exists():
        return clew.CannotTell("the bank is closed", retry_in_s=3600)
    paid = Path("payments").exists() and call.key in Path("payments").read_text().split()
    return clew.Happened({"transfer": "T-1"}) if paid else clew.DidNotHappen()


def move_money(call):
    with Path("payments").open("a") as book:
        book.write(f"{call.key}\\n")
    if flag("die"):
        os.kill(os.getpid(), signal.SIGKILL)
    if flag("boom"):
        raise ConnectionError("the line is dead")
    return {"transfer": "T-1"}


@clew.tool(effect="external")
def pay(call: clew.Call, order: str) -> dict:
    return move_money(call)


@clew.tool(effect="external", probe=find, in_doubt_s=0)
def ask(call: clew.Call, order: str) -> dict:
    return move_money(call)


@clew.tool(effect="external")
def report(call: clew.Call) -> str:
    move_money(call)
    return "x" * 20_000


@clew.tool(effect="external", secret=True)
def key(call: clew.Call) -> str:
    return "a new key"


@clew.tool(effect="none")
def hold() -> str:
    print("holding", flush=True)
    return input()


def end():
    if flag("bug"):
        raise ValueError("a bug")
    return "done"


@clew.agent(tools=[pay, report, key, hold, ask, write_file])
def settle(run, prompt):
    if flag("early-3") or flag("early-2") or flag("early-1"):
        os.kill(os.getpid(), signal.SIGKILL)
    for word in prompt.split():
        name, _, order = word.partition(":")
        if name in ("pay", "ask"):
            run.call(pay if name == "pay" else ask, order=order)
        elif name == "turn":
            run.turn(lambda request: "yes", order)
        elif name == "loop":
            deeds = iter(range(9))
            clew.loop.loop(
                run,
                execute=lambda run, round: next(deeds) if order == "tired" else "the same",
                repair=lambda run, round: next(deeds) if order == "tired" else "the same",
                verify=lambda run, round: Path("mended").exists(),
                config=clew.loop.LoopConfig(max_repeated_action=1, on_exhausted="pause"),
            )
        elif name == "note":
            run.call(write_file, path="note", content=order)
        elif name == "buy":
            run.propose(pay, order=order)
        elif name == "key":
            try:
                run.call(key)
            except clew.ResultNotRecorded:
                pass
        else:
            run.call(report if name == "report" else hold)
    return end()
"""


@dataclass
class Situation:
    """It has come to this: what the person saw, what stands for a name in a command, what is done between commands.

    Attributes:
        seen: All that clew printed, newest last.
        codes: The exit codes of what was typed until now, and those of what a program was told.
        values: What to type in the place of a name such as NONCE.
        between: Before the command of this number (0 is the first): what the person does by hand.
        finish: What ends the processes and mounts that are still there.
    """

    place: Place
    seen: str = ""
    codes: list[int] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    between: dict[int, Callable[[], Any]] = field(default_factory=dict)
    finish: Callable[[], Any] = lambda: None

    def look(self, *words: str, real: bool = False) -> Done:
        """Type something and take in what it says."""
        done = self.place.fork(*words) if real else self.place.type(*words)
        self.seen += f"$ clew {' '.join(words)}\n{done.out}{done.err}"
        self.codes.append(done.code)
        return done

    def hear(self, done: Done) -> None:
        """What a process said that was still running when the person looked away."""
        self.seen += done.err
        self.codes.append(done.code)

    def see(self, run_id: str = RUN) -> "Situation":
        """What a person looks at first."""
        self.look("ls")
        self.look("show", run_id)
        return self

    def run(self, prompt: str, *flags: str, real: bool = False, more: tuple[str, ...] = ()) -> "Situation":
        """A run that meets what the flags say."""
        (self.place.folder / "agent.py").write_text(AGENT, "utf-8")
        for name in flags:
            self.place.raise_flag(name)
        self.look("run", "agent.py:settle", prompt, "--run-id", RUN, *more, real=real)
        return self

    def edit_agent(self, old: str, new: str) -> None:
        """Change the agent's file."""
        path = self.place.folder / "agent.py"
        text = path.read_text("utf-8")
        assert old in text
        path.write_text(text.replace(old, new), "utf-8")

    def say(self, fault: clew.ClewError) -> None:
        """What a program is told, as its log shows it."""
        self.seen += f"clew: {fault.message} [{fault.code}]\nnext: {fault.next}\n"
        self.codes.append(fault.exit_code)

    @property
    def home(self) -> clew.Home:
        return clew.Home(self.place.home)


Maker = Callable[[Situation], Situation]
SITUATIONS: dict[str, Maker] = {}


def situation(name: str) -> Callable[[Maker], Maker]:
    """Give a situation the name of its row."""

    def keep(maker: Maker) -> Maker:
        SITUATIONS[name] = maker
        return maker

    return keep


def ended(process: "subprocess.Popen[Any]") -> None:
    """End a process, if it has not ended yet."""
    process.kill()
    process.communicate(timeout=30)


def holding(found: Situation, *, keep: bool = False) -> Live:
    (found.place.folder / "agent.py").write_text(AGENT, "utf-8")
    live = found.place.start("run", "agent.py:settle", "hold pay:1", "--run-id", RUN)
    live.until("holding")
    found.values = {"PID": str(live.process.pid)}
    if keep:
        found.finish = lambda: ended(live.process)
    return live


def implant(found: Situation, data: bytes) -> None:
    """A journal that this process did not write, in a home that it made."""
    found.place.done()
    found.place.journal().write_bytes(data)


def words_of(command: str, values: dict[str, str]) -> list[str]:
    """A command of the page as it is typed here: without `clew`, the names in capitals filled in."""
    given = {"RUN": RUN, "NAME": "ann", "TEXT": "'looked at the bank'", "N": "100", "SECONDS": "3600"}
    given |= {"JSON": """'{"transfer":"T-1"}'""", **values}
    return [given.get(word, word).strip("'") for word in shlex.split(command)[1:]]
