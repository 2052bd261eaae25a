"""The command itself, to which each of the commands is added, and what their words have in common. No command here."""

from typing import Final, Literal

from cyclopts import App, Group, Parameter

from clew.cli.screen import Options
from clew.runtime.recovery import VERSION

DEFAULTS: Final = Options()
Choice = Literal["pause", "fail"]
Switch = Parameter(negative="", show_default=False)

app = App(
    name="clew",
    version=VERSION,
    group_parameters=Group("Options", sort_key=10),
    # How "not given" is written says nothing to a reader.
    default_parameter=Parameter(show_default=lambda value: None if value in (None, "", ()) else str(value)),
    help_format="markdown",
    help="""Run agents that do real things, and never lose the thread.

Every run keeps a journal of what it did. When it dies between an effect and its record, clew does not guess: it asks
the tool's probe, or a person, writes the answer down, and goes on.

RUN is any unique part of a run's id, or @last. The answer is on stdout, progress on stderr.""",
    help_epilogue="""Exit codes:
0 done, 1 a fault of clew, 2 wrong usage, 3 the run failed or was aborted, 4 refused, 5 paused at a limit,
10 no such home or run, 11 held by another writer, 12 corrupt, 13 storage.
Paused: 20 approval wanted, 21 an effect needs a person, 22 the agent raised, 23 on request, 130 Ctrl-C,
143 SIGTERM.""",
)
