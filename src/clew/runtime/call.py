"""One start of one call, as a tool, its probe and a policy see it. What a tool declares is not known here."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from clew.core.checkpoint import Manifest
from clew.core.ids import call_short, call_uuid, effect_key
from clew.errors import UsageError
from clew.stores.base import Processes, Workspace


class Call:
    """One start of one call, as the tool and its probe see it.

    Attributes:
        key: The idempotency key `run:step:call`; the same on every attempt.
        uuid: A UUIDv5 of the key, for systems that want one.
        short: 16 characters of the key's hash, for short reference fields.
        attempt: Counted from 1.
        tool: The tool's name.
        arguments: The call's arguments as JSON.
        leg: The nonce of the leg in which it runs; empty outside of one.
        listened: Has the tool asked whether it is called off? Then it is given a moment when it is.
        kept: How its paths stood when they were kept, by path below the workspace; None where none were. What is
            written with it (`workspace.write(…, kept=call.kept)`) replaces nothing that somebody changed since.
        proposed: Does a model want it (`run.propose`), not the agent's own code (`run.call`)?
    """

    __slots__ = (
        "_called_off", "_left", "_processes", "_workspace", "arguments", "attempt", "kept", "key", "leg", "listened",
        "proposed", "run_id", "tool",
    )  # fmt: skip

    def __init__(
        self, key: str, *, tool: str = "", attempt: int = 1, arguments: Mapping[str, Any] | None = None,
        workspace: Workspace | None = None, processes: Processes | None = None,
        called_off: Callable[[], bool] = lambda: False, leg: str = "", proposed: bool = False,
        kept: Manifest | None = None,
    ) -> None:  # fmt: skip
        self.key = key
        self.leg = leg
        self.run_id = key.partition(":")[0]
        self.tool = tool
        self.attempt = attempt
        self.arguments: Mapping[str, Any] = arguments or {}
        self._workspace = workspace
        self._processes = processes
        self._called_off = called_off
        self._left = False
        self.listened = False
        self.proposed = proposed
        self.kept = kept

    @classmethod
    def loose(
        cls, name: str = "loose", *, workspace: Workspace | None = None, processes: Processes | None = None,
        **arguments: Any,
    ) -> "Call":  # fmt: skip
        """A call outside of any run, to try a tool by hand."""
        key = effect_key("loose", f"{name}-1", "c1")
        return cls(key, tool=name, arguments=arguments, workspace=workspace, processes=processes)

    @property
    def workspace(self) -> Workspace:
        """The files that workspace tools may touch.

        Raises:
            UsageError: `no_workspace` for a loose call that was given none.
        """
        if self._workspace is None:
            raise UsageError(
                f"call {self.key!r} has no workspace",
                code="no_workspace",
                next="Give it one: clew.Call.loose(workspace=clew.Home().workspace).",
                tool=self.tool,
            )
        return self._workspace

    @property
    def processes(self) -> Processes:
        """What starts commands on this machine.

        Raises:
            UsageError: `no_processes` for a loose call that was given none.
        """
        if self._processes is None:
            raise UsageError(
                f"call {self.key!r} may start no process",
                code="no_processes",
                next="Let it: clew.Call.loose(processes=clew.Home().processes).",
                tool=self.tool,
            )
        return self._processes

    @property
    def called_off(self) -> bool:
        """Is the run to end at once, or the call's time up? A tool that takes long may ask, and give up."""
        self.listened = True
        return self._left or self._called_off()

    def environment(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """An environment for a process that the tool starts: `subprocess.run(…, env=call.environment())`.

        It marks the process as this attempt's, `CLEW_CALL` and `CLEW_LEG`: an abort ends it and all that descends from
        it, and a resume looks for it and waits. `base` is what else it is given: all of this program's when left out.
        """
        return {
            **(os.environ if base is None else base),
            "CLEW_CALL": f"{self.key}#{self.attempt}",
            "CLEW_LEG": self.leg,
        }

    def leave(self) -> None:
        """Nobody waits for this call any more."""
        self._left = True

    @property
    def uuid(self) -> str:
        """A UUIDv5 of the key."""
        return str(call_uuid(self.key))

    @property
    def short(self) -> str:
        """16 lower-case characters of the key's hash."""
        return call_short(self.key)
