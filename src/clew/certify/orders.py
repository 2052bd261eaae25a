"""What is said between the command, its servers and a leg: shapes, as JSON in files and on pipes. Does nothing."""

from collections.abc import Mapping
from typing import Any

import msgspec

from clew.certify.points import Kill


class LegOrder(msgspec.Struct, frozen=True):
    """One process of one life.

    Attributes:
        folder: Of the life: `ledger`, `output`, `end` and `tmp` are there.
        work: The scratch workspace; the scratch home is `.clew` in it.
        run_id: The run's id, the same for all its legs.
        number: Which leg, from 1.
        deed: `run` or `resume`.
        dice: From what chance is drawn.
        ahead_ms: So far ahead of the machine's clock this life is, as it has slept.
        answers: The file of the answers, if there are any.
        kill: Where it dies; `appends` and `bodies` were counted before it by the legs since the last death.
        fails: Which body is refused instead of run; 0 for none.
        live: The bodies of external tools and models are run: the one time that `--live` asks for.
        may_write: Folders outside that the agent may write to.
        session: The conversation that the run goes on with, begun in each life; none if empty.
        patience_s: A leg that takes longer is ended.
    """

    folder: str
    work: str
    run_id: str
    number: int
    deed: str
    dice: str
    prompt: Any = None
    ahead_ms: int = 0
    answers: str = ""
    kill: Kill | None = None
    appends: int = 0
    bodies: int = 0
    fails: int = 0
    live: bool = False
    may_write: tuple[str, ...] = ()
    session: str = ""
    patience_s: float = 60.0


class LegEnd(msgspec.Struct, frozen=True):
    """How it ended, as its own last words have it; there are none of one that was killed.

    Attributes:
        reason: `completed`, or why the run paused or failed.
        retry_in_s: When a probe wants to be asked again.
        fault: What clew refused, by code and message.
    """

    reason: str = ""
    message: str = ""
    retry_in_s: float | None = None
    fault: tuple[str, str] | None = None


class LegReport(msgspec.Struct, frozen=True):
    """What its keeper saw: was it killed, did it take too long, what it left behind, in words."""

    killed: bool = False
    late: bool = False
    crashed: str = ""
    left: Mapping[str, str] = {}
    end: LegEnd | None = None


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a life's ledger.

    `did` is `began`, `happened`, `raised` or `refused` of a tool's body; `appended` and `struck` of the process;
    `found` and `noted` of what was seen; `slept`; `unanswered`.
    """

    did: str
    leg: int = 0
    tool: str = ""
    key: str = ""
    attempt: int = 0
    arguments: Any = None
    effect: str = ""
    replay: str = ""
    answer: Any = None
    code: str = ""
    what: str = ""
    milliseconds: int = 0
