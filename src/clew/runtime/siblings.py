"""Calls side by side, for async agents and plain ones: each judged alone, results in call order. Of one: `drivers`."""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Self

from clew.errors import Stop, UsageError
from clew.runtime.control import POLL_S
from clew.runtime.drivers import pass_async, pass_sync
from clew.runtime.gate import Gate
from clew.runtime.place import here
from clew.runtime.tickets import Ticket

Admit = Callable[..., Ticket | None]

TURNS: Final = 20
"""So many turns of its loop a call waits for a recorded one to be asked for again, before that is a divergence."""


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
        # Those that were asked for before a recorded one; they come to their turn behind it.
        self._early: list[Callable[[Admit], bool]] = []

    def _enter(self) -> None:
        self._place = here(self._gate.journal.state.run_id).inside(self._open_step())

    @property
    def results(self) -> list[Any]:
        """What the calls were told, in call order; the first error is raised."""
        return [handle.result() for handle in self._handles]

    def _let_in(
        self, tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any], start: Callable[[Handle, Ticket], None], *,
        proposed: bool,
    ) -> Handle:  # fmt: skip
        """Take a place for one call and start it; while a recorded one is to be asked for yet, behind that one."""
        handle, how = Handle(), {"proposed": proposed, "sibling": True}

        def begin(admit: Admit) -> bool:
            ticket = admit(tool, args, kwargs, self._place, **how)
            if ticket is not None:
                start(handle, ticket)
            return ticket is not None

        begun = begin(self._gate.admit_if_in_turn)
        self._handles.append(handle)
        if begun:
            self._begin_early(self._gate.admit_if_in_turn)
        else:
            self._early.append(lambda admit: _begun(handle, begin, admit))
        return handle

    def _begin_early(self, admit: Admit) -> None:
        """Start those whose turn has come."""
        self._early = [begin for begin in self._early if not begin(admit)]

    def _raise_stop(self) -> None:
        """An open effect among them stops the agent."""
        for handle in self._handles:
            if isinstance(handle.fault, Stop):
                raise handle.fault


def _begun(handle: Handle, begin: Callable[[Admit], bool], admit: Admit) -> bool:
    """Is nothing more to be done for a call? What keeps it from starting is its own answer, nobody else's."""
    try:
        return begin(admit)
    except BaseException as fault:  # noqa: BLE001  # whatever it raises goes to the one who waits
        handle.told(None, fault)
        return True


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
        return self._let_in(tool, args, kwargs, self._start, proposed=False)

    def propose(self, tool: Any, /, *args: Any, **kwargs: Any) -> Handle:
        """Start one call that a model asked for, as `Run.propose`."""
        return self._let_in(tool, args, kwargs, self._start, proposed=True)

    def _start(self, handle: Handle, ticket: Ticket) -> None:
        self._tasks.append(asyncio.ensure_future(_into(handle, self._gate, ticket)))

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._begin_early(self._gate.admit)
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


async def in_turn(
    gate: Gate, tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, proposed: bool = False
) -> Ticket:
    """Admit a call of no group; where a recorded one is to be asked for first, the agent's other tasks get to do so.

    Raises:
        as `Gate.admit`.
    """
    place = here(gate.journal.state.run_id)
    for _ in range(TURNS):
        ticket = gate.admit_if_in_turn(tool, args, kwargs, place, proposed=proposed)
        if ticket is not None:
            return ticket
        await asyncio.sleep(0)
    return gate.admit(tool, args, kwargs, place, proposed=proposed)


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
        return self._let_in(tool, args, kwargs, self._start, proposed=False)

    def propose(self, tool: Any, /, *args: Any, **kwargs: Any) -> Handle:
        """Start one call that a model asked for, as `Run.propose`."""
        return self._let_in(tool, args, kwargs, self._start, proposed=True)

    def _start(self, handle: Handle, ticket: Ticket) -> None:
        context = contextvars.copy_context()

        def body() -> None:
            try:
                handle.told(context.run(pass_sync, self._gate, ticket))
            except BaseException as fault:  # noqa: BLE001  # whatever it raises goes to the one who waits
                handle.told(None, fault)

        thread = threading.Thread(target=body, name=f"clew-{ticket.facts.step_id}", daemon=True)
        self._threads.append(thread)
        try:
            thread.start()
        except RuntimeError:
            # The machine gives no thread: one after another, then.
            body()

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._begin_early(self._gate.admit)
        for thread in self._threads:
            while thread.is_alive():
                thread.join(POLL_S)
                self._gate.poll()
        if fault is None:
            self._raise_stop()
