"""Calls side by side, for async agents and plain ones: each judged alone, results in call order. No single calls."""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

from clew.errors import Stop, UsageError
from clew.runtime.control import POLL_S
from clew.runtime.drivers import pass_async, pass_sync
from clew.runtime.gate import Gate
from clew.runtime.place import here
from clew.runtime.tickets import Ticket


class Handle:
    """One call of a group. `result()` is what it was told, once the group has ended."""

    def __init__(self) -> None:
        self.value: Any = None
        self.fault: BaseException | None = UsageError(
            "a call of a group has no answer yet, or was cancelled before it began",
            code="group_not_ended",
            next="Read results behind the `with` block of the group.",
        )

    def told(self, value: Any, fault: BaseException | None = None) -> None:
        """It has ended."""
        self.value, self.fault = value, fault

    def result(self) -> Any:
        """The answer, or its error raised."""
        if self.fault is not None:
            raise self.fault
        return self.value


class _Group:
    """Calls side by side, each judged alone: one that fails neither ends nor hides the others."""

    def __init__(self, gate: Gate, open_step: Callable[[], str]) -> None:
        self._gate = gate
        self._open_step = open_step
        self._place = here(gate.journal.state.run_id)
        self._handles: list[Handle] = []

    def _enter(self) -> None:
        self._place = here(self._gate.journal.state.run_id).inside(self._open_step())

    @property
    def results(self) -> list[Any]:
        """What the calls were told, in call order; the first error is raised."""
        return [handle.result() for handle in self._handles]

    def _ticket(
        self, tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, proposed: bool
    ) -> tuple[Handle, Ticket]:
        ticket = self._gate.admit(tool, args, kwargs, self._place, proposed=proposed, sibling=True)
        handle = Handle()
        self._handles.append(handle)
        return handle, ticket

    def _raise_stop(self) -> None:
        """An open effect among them stops the agent."""
        for handle in self._handles:
            if isinstance(handle.fault, Stop):
                raise handle.fault


class Group(_Group):
    """A group of an async run."""

    def __init__(self, gate: Gate, open_step: Callable[[], str], breathe: Callable[[], Awaitable[None]]) -> None:
        super().__init__(gate, open_step)
        self._breathe = breathe
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self._breathe()
        self._enter()
        return self

    def call(self, tool: Any, /, *args: Any, **kwargs: Any) -> Handle:
        """Start one call; its place among its equals is given now, whenever it ends."""
        return self._begin(tool, args, kwargs, proposed=False)

    def propose(self, tool: Any, /, *args: Any, **kwargs: Any) -> Handle:
        """Start one call that a model asked for, as `Run.propose`."""
        return self._begin(tool, args, kwargs, proposed=True)

    def _begin(self, tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, proposed: bool) -> Handle:
        handle, ticket = self._ticket(tool, args, kwargs, proposed=proposed)
        self._tasks.append(asyncio.ensure_future(_into(handle, self._gate, ticket)))
        return handle

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        met = None
        for task in self._tasks:
            while not task.done():
                try:
                    await asyncio.wait([task])
                except asyncio.CancelledError as cancelled:
                    met = cancelled
                    for child in self._tasks:
                        child.cancel()
        if met is not None:
            raise met
        if fault is None:
            self._raise_stop()


async def _into(handle: Handle, gate: Gate, ticket: Ticket) -> None:
    try:
        handle.told(await pass_async(gate, ticket))
    except BaseException as fault:  # noqa: BLE001  # whatever it raises goes to the one who waits
        handle.told(None, fault)


class SyncGroup(_Group):
    """A group of a plain run."""

    def __init__(self, gate: Gate, open_step: Callable[[], str]) -> None:
        super().__init__(gate, open_step)
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._enter()
        return self

    def call(self, tool: Any, /, *args: Any, **kwargs: Any) -> Handle:
        """Start one call in a thread of its own."""
        return self._begin(tool, args, kwargs, proposed=False)

    def propose(self, tool: Any, /, *args: Any, **kwargs: Any) -> Handle:
        """Start one call that a model asked for, as `Run.propose`."""
        return self._begin(tool, args, kwargs, proposed=True)

    def _begin(self, tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, proposed: bool) -> Handle:
        handle, ticket = self._ticket(tool, args, kwargs, proposed=proposed)
        context = contextvars.copy_context()

        def body() -> None:
            try:
                handle.told(context.run(pass_sync, self._gate, ticket))
            except BaseException as fault:  # noqa: BLE001  # whatever it raises goes to the one who waits
                handle.told(None, fault)

        thread = threading.Thread(target=body, name=f"clew-{ticket.facts.step_id}", daemon=True)
        self._threads.append(thread)
        thread.start()
        return handle

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        for thread in self._threads:
            while thread.is_alive():
                thread.join(POLL_S)
                self._gate.poll()
        if fault is None:
            self._raise_stop()
