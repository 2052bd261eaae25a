"""The protocol of a machine's processes: commands that are run, found and ended. No implementation."""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from typing import Final, Protocol

import msgspec


class Order(msgspec.Struct, frozen=True):
    """A command to be run: what, in which absolute folder, by which attempt `key#attempt`; bytes kept of its output.

    `leg` is the nonce of the leg in which it runs, empty outside of one.
    """

    command: str
    folder: str
    mark: str
    head_bytes: int
    tail_bytes: int
    leg: str = ""


class CommandEnd(msgspec.Struct, frozen=True):
    """How a command ended. Its output's beginning and end are kept, and how long the whole was.

    Attributes:
        exit_code: None when a signal ended it (then `signal_name` says which) or nobody saw its end.
        head: The beginning of what it wrote to stdout and stderr, in the order in which that came.
        tail: The end, where `head` is not all; bytes between the two are cut.
        size_bytes: Of all it wrote.
        duration_ms: From before its start until all of its processes had ended.
        stopped: Why it was ended before its time, empty when it ended by itself.
        ended: Processes that it left behind, in words; they were ended.
        left: Processes that could not be ended, in words.
        watched: False when its warden was killed: then nobody saw how it ended.
    """

    exit_code: int | None
    signal_name: str
    head: bytes
    tail: bytes
    size_bytes: int
    duration_ms: int
    stopped: str = ""
    ended: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    watched: bool = True


UNMARKED: Final = "a process without a mark"
"""In the place of an attempt, where nobody knows whose a process is."""


class Processes(Protocol):
    """The processes of this machine, as far as calls start them.

    Source:
        DESIGN §5, stage 6.
    """

    def run(self, order: Order, stop: Callable[[], str]) -> CommandEnd:
        """Run a command as a group that has ended as a whole when this returns. Blocks its thread.

        `stop` is asked now and then: a text that is not empty is the reason to end the group.

        Raises:
            Refused: `command_not_started`; nothing ran.
        """
        ...

    def living(self, run_id: str) -> Mapping[str, str]:
        """Attempts `key#attempt` of a run of which a process lives here, and which ones, in words.

        A process is known by `CLEW_CALL` in its environment, or by descent from such a one; behind `adopting`, others
        that descend from this process are told under `UNMARKED`.
        """
        ...

    def end(self, run_id: str, legs: Collection[str]) -> Mapping[str, str]:
        """Tell the processes of a run to end, SIGTERM first and SIGKILL later; blocks until they have, some seconds.

        Only what is proven to be of this very run: it, or what it descends from, descends from this process or carries
        the nonce of one of these legs (`CLEW_LEG`). Another home may have a run of the same id.

        Returns:
            Attempts `key#attempt` of which one lives all the same, and which ones, in words.
        """
        ...

    def adopting(self) -> AbstractContextManager[None]:
        """While it lasts, this process serves a run alone: what it starts is the run's, with or without a mark.

        What loses its parent below it becomes its own child. Only for a program that owns its process.
        """
        ...
