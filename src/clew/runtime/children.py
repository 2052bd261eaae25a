"""Seeing children to their end while their parent waits: on its event loop, or in a thread beside a plain agent.

What a child is and what is said of it belongs to `kinship`; here it is lived, closed with its parent, and waited for.
"""

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import msgspec

from clew.core import delegation
from clew.core.delegation import DelegationState
from clew.core.needs import Closing
from clew.core.records import Draft
from clew.core.state import RunState
from clew.errors import ClewError, Stop
from clew.runtime.commanding import abort_run
from clew.runtime.control import POLL_S
from clew.runtime.drivers import CALLED_OFF
from clew.runtime.ending import unthreaded
from clew.runtime.gate import Gate
from clew.runtime.kinship import Errand, Kinship, Tree
from clew.runtime.live import LegEnd, live_sync
from clew.runtime.logs import listener
from clew.runtime.looping import live_async
from clew.runtime.nursery import Wish
from clew.runtime.opening import HomeParts, Opening
from clew.runtime.orders import Orders
from clew.runtime.orphans import end_children
from clew.runtime.pool import NoThread, aside, begin_thread, let_go
from clew.runtime.recovery import end_leg
from clew.runtime.reviewing import Said

QUIET_S: Final = 5.0
"""So long a child that was told to end is waited for (contract #247)."""


def nurse(place: HomeParts, gate: Gate, tree: Tree | None = None) -> None:
    """Let the run of this leg have children, in the home whose parts these are."""
    nursery = Children(place, gate, tree or Tree(0))
    if tree is None:
        nursery.tree.count = nursery.descendants(gate.journal.state)
    gate.nursery = nursery


class _Cancel(msgspec.Struct):
    """Why a child was told to end, and until when it is waited for."""

    by: str
    reason: str
    until_s: float


class Children(Kinship):
    """The children of one run, for one leg: the part that lives them."""

    async def raise_async(self, step_id: str, wish: Wish) -> Any:
        """See a child to its end without blocking the loop; what the agent is told of it.

        A cancellation pauses the child, and the parent with it: nobody goes on past a child that has not ended.
        """
        errand = self.errand(step_id, wish)
        met: BaseException | None = None
        left = self.unheard(errand)
        if left is None:
            with self.counted(errand), self.gate.flight():
                met = await self._see_async(errand)
        elif left:
            with self.gate.flight():
                met = await self.journal.append_from_loop(left)
        if met is not None:
            raise met
        return self.told(errand)

    async def _see_async(self, errand: Errand) -> BaseException | None:
        met: BaseException | None = None
        if errand.step not in self.state.delegations:
            met = await self.journal.append_from_loop([self.intent(errand)], starts=True)
        opened, struck = await aside(lambda: self._ready(errand))
        met = met or struck
        if isinstance(opened, Opening):
            met = await self._through_async(errand, opened, met) or met
        if met is not None:
            self.gate.close(Closing("child_paused", f"the agent does not wait for child {errand.child_id} any more"))
        return met

    async def _through_async(self, errand: Errand, opened: Opening, met: BaseException | None) -> BaseException | None:
        child: RunState | None = opened.state
        if opened.gate is not None:
            with self._within(opened.gate):
                struck = await self._append_running(errand)
                if met is not None or struck is not None:
                    opened.gate.close(Closing("interrupted"))
                child, late = await self._live_async(errand, opened, opened.gate)
                met = met or struck or late
        if child is None:
            return met
        grown = child
        said, struck = await aside(lambda: self.parting(errand, grown))
        late = await self.journal.append_from_loop(said) if said else None
        return met or struck or late

    async def _append_running(self, errand: Errand) -> BaseException | None:
        """Say that it runs; a parent that has closed meanwhile does not, and the child closes with it."""
        try:
            return await self.journal.append_from_loop(self._running(errand), starts=True)
        except Stop:
            return None

    async def _live_async(
        self, errand: Errand, opened: Opening, child: Gate
    ) -> tuple[RunState | None, BaseException | None]:
        """Live its leg beside the parent's. No state: it did not end in time, and nothing is known of it."""
        task = asyncio.ensure_future(live_async(child, errand.agent, opened.state.input, opened.plan, _orders()))
        met: BaseException | None = None
        cancel: _Cancel | None = None
        deadline = self._deadline(errand)
        while not task.done():
            try:
                await asyncio.wait([task], timeout=POLL_S)
            except asyncio.CancelledError as cancelled:
                met = cancelled
                child.close(Closing("interrupted"))
            if cancel is None and (cancel := self._called_off(deadline)) is not None:
                met = await self.journal.append_from_loop(self._calling_off(errand, child, cancel)) or met
            if cancel is not None and not task.done() and self._now() >= cancel.until_s:
                let_go(task)
                self._not_quiescent(errand, cancel)
                return None, met
        return self._grown(child, task.exception()), met

    # Plain agents.

    def raise_sync(self, step_id: str, wish: Wish) -> Any:
        """See a child to its end, blocking; as `raise_async`. Ctrl-C does not strike here: it closes both gates."""
        errand = self.errand(step_id, wish)
        left = self.unheard(errand)
        if left is None:
            struck, self.gate.interruptible = self.gate.interruptible, False
            try:
                with self.counted(errand), self.gate.flight():
                    self._see_sync(errand)
            finally:
                self.gate.interruptible = struck
        elif left:
            with self.gate.flight():
                self.journal.append(left)
        return self.told(errand)

    def _see_sync(self, errand: Errand) -> None:
        if errand.step not in self.state.delegations:
            self.journal.append([self.intent(errand)], starts=True)
        opened = self._ready(errand)
        if not isinstance(opened, Opening):
            return
        child: RunState | None = opened.state
        if opened.gate is not None:
            with self._within(opened.gate):
                with suppress(Stop):
                    self.journal.append(self._running(errand), starts=True)
                child = self._live_beside(errand, opened, opened.gate)
        if child is not None:
            said = self.parting(errand, child)
            if said:
                self.journal.append(said)

    def _live_beside(self, errand: Errand, opened: Opening, child: Gate) -> RunState | None:
        """Live its leg in a thread, and look after the parent's own inbox meanwhile."""
        deadline = self._deadline(errand)
        thread = _Leg(errand, opened, child)
        cancel: _Cancel | None = None
        while not thread.over.wait(POLL_S):
            self.gate.poll()
            if cancel is None and (cancel := self._called_off(deadline)) is not None:
                self.journal.append(self._calling_off(errand, child, cancel))
            if cancel is not None and self._now() >= cancel.until_s and not thread.over.is_set():
                self._not_quiescent(errand, cancel)
                return None
        return self._grown(child, thread.fault)

    def end_all(self) -> dict[str, str]:
        """End the children that stand still; one that was told to end and has not is named already."""
        said = Said("clew", f"its parent {self.run_id} is aborted: {self.gate.aborting}")
        outliving = self.gate.outliving

        def end(child_id: str) -> None:
            if child_id not in outliving:
                abort_run(self.place, child_id, said)

        return end_children(self.state, end)

    # What both do.

    def _ready(self, errand: Errand) -> Opening | None:
        """Its next leg, if the gate is still open and it can have one; else the gate closes."""
        if self.gate.closing is not None:
            return None
        opened = self.open(errand)
        if isinstance(opened, Closing):
            self.gate.close(opened)
            return None
        if opened.gate is not None:
            nurse(self.place, opened.gate, self.tree)
        return opened

    def _running(self, errand: Errand) -> list[Draft]:
        """That its agent is about to be called, and that it was born where that was not said yet."""
        known = self.state.delegations[errand.step]
        runs = Draft("delegation", delegation.running(self.run_id, known, self.purse.allocation(errand.step)))
        return [*self._born(known), runs]

    def _born(self, known: DelegationState) -> list[Draft]:
        """That its journal stands, where that was not said yet."""
        return [] if known.born else [Draft("delegation", delegation.created(self.run_id, known))]

    @contextmanager
    def _within(self, child: Gate) -> Iterator[None]:
        """While it lives it closes with its parent: paused as that one is, or aborted."""

        def follow() -> None:
            closing = self.gate.closing
            if self.gate.aborting:
                child.aborting = child.aborting or f"its parent {self.run_id} is aborted: {self.gate.aborting}"
                child.close(Closing("aborted"))
            elif closing is not None:
                reason = closing.reason if closing.reason in CALLED_OFF else "pause_requested"
                child.close(Closing(reason, f"its parent {self.run_id} is pausing: {closing.reason}"))

        child.lanes = self.gate.lanes
        self.gate.followers.append(follow)
        try:
            # It may have closed before it had this one to tell.
            follow()
            yield
        finally:
            self.gate.followers.remove(follow)

    def _now(self) -> float:
        return self.journal.clock.monotonic_s()

    def _deadline(self, errand: Errand) -> float | None:
        return None if errand.timeout_s is None else self._now() + errand.timeout_s

    def _called_off(self, deadline: float | None) -> _Cancel | None:
        """Is it to end now: because its parent is aborted, or it was waited for long enough?"""
        if self.gate.aborting:
            return _Cancel("parent_abort", self.gate.aborting, self._now() + QUIET_S)
        if deadline is not None and self._now() >= deadline:
            return _Cancel("join_timeout", "it was not done in time", self._now() + QUIET_S)
        return None

    def _calling_off(self, errand: Errand, child: Gate, cancel: _Cancel) -> list[Draft]:
        """Tell it to end; the record of that."""
        child.aborting = child.aborting or f"{cancel.by}: {cancel.reason}"
        child.close(Closing("aborted"))
        known = self.state.delegations[errand.step]
        fact = delegation.cancel_requested(self.run_id, known, by=cancel.by, reason=cancel.reason)
        return [*self._born(known), Draft("delegation", fact)]

    def _not_quiescent(self, errand: Errand, cancel: _Cancel) -> None:
        """It was told to end and did not: nobody knows what it still does."""
        words = f"child {errand.child_id} was told to end ({cancel.by}) and has not after {QUIET_S:g} s"
        self.gate.outliving[errand.child_id] = words
        self.gate.close(Closing("child_run_not_quiescent", words))

    def _grown(self, child: Gate, fault: BaseException | None) -> RunState:
        """Its state on disk once its leg is over. What is no error of clew's goes on up: then this process dies."""
        if fault is not None and not isinstance(fault, ClewError):
            raise fault
        return child.journal.state


def _orders() -> Orders:
    """A child pauses where it cannot go on, and its parent with it; signals are its parent's."""
    return Orders(watch=listener())


class _Leg:
    """A child's leg in a thread of its own. `over` once it has ended, whatever its agent still does."""

    def __init__(self, errand: Errand, opened: Opening, child: Gate) -> None:
        self.over = threading.Event()
        self.fault: BaseException | None = None
        agent, prompt, plan = errand.agent, opened.state.input, opened.plan

        def live() -> LegEnd:
            if agent.is_async:
                return asyncio.run(live_async(child, agent, prompt, plan, _orders()))
            return live_sync(child, agent, prompt, plan, _orders(), self._park, self._hand)

        def body() -> None:
            try:
                live()
            except BaseException as fault:  # noqa: BLE001  # whatever it raises goes to the one who waits
                self.fault = fault
            self.over.set()

        context = contextvars.copy_context()
        name = f"child-{errand.step}"
        try:
            begin_thread(lambda: context.run(body), name)
        except NoThread as fault:
            end_leg(child.journal)
            self.fault = unthreaded(child, fault)
            self.over.set()

    def _hand(self, end: LegEnd | ClewError) -> None:
        """Its leg has ended, whatever its agent still does in this thread."""
        self.fault = end if isinstance(end, ClewError) else None
        self.over.set()

    def _park(self, end: LegEnd | ClewError) -> None:
        """Its leg has ended under an agent that never gives in: nothing else stops this thread."""
        self._hand(end)
        threading.Event().wait()
