"""What an agent holds: `Run` for async agents, `SyncRun` for plain ones. Thin faces over one gate."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from clew.core.budget import RunBudget
from clew.core.events import Event, step_output, turn_end
from clew.core.ids import check_name
from clew.core.jsonable import record_result
from clew.errors import UsageError
from clew.runtime.bodies import blocking
from clew.runtime.clock import now_text, random_float, random_uuid
from clew.runtime.drivers import pass_async, pass_sync
from clew.runtime.gate import Gate
from clew.runtime.nursery import Nursery, Wish
from clew.runtime.place import HERE, here
from clew.runtime.pool import SYNCS, in_own_thread, through
from clew.runtime.siblings import Group, SyncGroup
from clew.runtime.tickets import Ticket, restored
from clew.runtime.tools import RESERVED, as_agent
from clew.runtime.turns import Turn, admit_turn, answer_events, heard, step_events


class _Recorded:
    """What both faces have: who the run is, and values that are recorded so that a replay sees them again."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._gate.journal.state.run_id

    @property
    def workspace(self) -> str:
        """The folder that workspace tools may touch."""
        return self._gate.workspace.root

    def now(self) -> str:
        """The time, ISO-8601 UTC; the same again when the agent is replayed."""
        return str(self._value("now", lambda: now_text(self._gate.journal.clock)))

    def random(self) -> float:
        """A number in [0, 1); the same again when the agent is replayed."""
        return float(self._value("random", lambda: random_float(self._gate.journal.clock)))

    def uuid(self) -> str:
        """A version 4 UUID; the same again when the agent is replayed."""
        return str(self._value("uuid", lambda: random_uuid(self._gate.journal.clock)))

    def _value(self, name: str, make: Callable[[], Any]) -> Any:
        gate = self._gate
        gate.check_open()
        step = gate.next_in_leg(here(self.run_id).path, name)
        recorded = gate.journal.state.steps.get(step)
        if recorded is not None:
            return gate.read_answer(recorded).value
        value = make()
        # It rides in front of the next append: nothing durable can rest on it before.
        gate.journal.riders.append(step_output(step, f'"{value}"' if isinstance(value, str) else repr(value)))
        return value

    def _admit(self, tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Ticket:
        return self._gate.admit(tool, args, kwargs, here(self.run_id))

    def _step_id(self, name: str) -> str:
        check_name(name, "step")
        if name in RESERVED or name in self._gate.tools:
            raise UsageError(
                f"a step cannot be called {name!r}",
                code="invalid_step_name",
                next="Choose a name that is neither a tool's nor one of clew's own.",
                name=name,
            )
        self._gate.check_time()
        return self._gate.next_in_leg(here(self.run_id).path, name)

    @property
    def _nursery(self) -> Nursery:
        assert self._gate.nursery is not None
        return self._gate.nursery

    def _replayed_step(self, step: str, work: Callable[..., Any]) -> tuple[bool, Any]:
        recorded = self._gate.journal.state.steps.get(step)
        if recorded is None:
            return False, None
        return True, restored(self._gate.read_answer(recorded).value, _returns(work))


def _returns(work: Callable[..., Any]) -> Any:
    annotation = inspect.get_annotations(work, eval_str=False).get("return", Any) if inspect.isroutine(work) else Any
    return Any if isinstance(annotation, str) or annotation is None else annotation


class Run(_Recorded):
    """A run as an async agent sees it. Lives for one leg; on resume the agent gets a new one and begins anew."""

    async def call(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a tool through the gate.

        Returns:
            What the tool returned, as recorded: JSON restored by its return annotation. The same on every replay.

        Raises:
            ToolError: the answer is an error; `Denied`, `ResultNotRecorded` among them.
            UsageError: the arguments do not fit or are not JSON; nothing was started.
            Stop: the run is pausing; let it pass.
        """
        await self._breathe()
        return await pass_async(self._gate, self._admit(tool, args, kwargs))

    async def _breathe(self) -> None:
        """Before a closed gate refuses, the loop goes on: an agent that never gives in can be left behind."""
        if self._gate.closing is not None:
            await asyncio.sleep(0)
        if self._gate.left:
            await asyncio.get_running_loop().create_future()

    async def step(self, name: str, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Do a named unit of work: `work(*args, **kwargs)`, async or plain. Once answered, its answer is replayed.

        A step that died half way is done again from its beginning; the calls inside it are judged each on its own.
        """
        await self._breathe()
        step = self._step_id(name)
        replayed, value = self._replayed_step(step, work)
        if replayed:
            return value
        token = HERE.set(here(self.run_id).inside(step))
        try:
            made = work(*args, **kwargs)
            told = record_result(await made if inspect.isawaitable(made) else made)
        finally:
            HERE.reset(token)
        answer = self._gate.redactor.answer(told)
        await self._write(lambda: step_events(self._gate, step, answer))
        return restored(answer, _returns(work))

    async def turn(self, ask: Callable[[Any], Any], request: Any) -> Any:
        """Ask a model once: `ask(request)`, async or plain, returns `clew.Turn(output, usage)` or a bare output.

        The request is on disk before the model is asked, the answer before anything is done with it.
        """
        await self._breathe()
        gate = self._gate
        ticket = admit_turn(gate, request)
        if ticket.replay is not None:
            return ticket.replay.value
        if gate.extensions is not None:
            await gate.extensions.before_model_on_loop(ticket.turn_id, ticket.fingerprint, request)
        await self._write(lambda: [ticket.start()])
        try:
            turn = heard(gate, await _asked(ask, request))
        except BaseException:
            with gate.flight():
                await gate.journal.append_from_loop([turn_end(ticket.turn_id, None)])
            raise
        await self._write(lambda: answer_events(gate, ticket, turn))
        return turn.output

    async def child(
        self, agent: Any, input: Any = None, *, name: str | None = None, budget: RunBudget | None = None,
        run_id: str | None = None, timeout_s: float | None = None,
    ) -> Any:  # fmt: skip
        """Let another agent do a part as a run of its own, in the same home, and wait for its output.

        Args:
            agent: As for `home.run`; the policy of this run's agent is asked for its calls as well.
            input: What it is asked; JSON.
            name: Of the step that waits for it; `child` when left out.
            budget: Its limits; never more than this run has left, which it is taken from.
            run_id: An id of yours; made from this run and the step when left out, so that a replay finds it again.
            timeout_s: Seconds to wait before it is aborted.

        Returns:
            Its output, as recorded. The same on every replay.

        Raises:
            ToolError: it failed or was aborted. Stop: it waits, and this run with it.
            Refused: `delegation_conflict`, `child_run_concurrency_limit`, `child_run_depth_limit`,
                `child_run_total_limit`, `child_run_identity_mismatch`; nothing was started.
        """
        await self._breathe()
        found = as_agent(agent)
        told = await self._nursery.raise_async(
            self._step_id(name or "child"), Wish(found, input, budget, run_id, timeout_s)
        )  # fmt: skip
        return restored(told, _returns(found.body))

    async def _write(self, make: Callable[[], list[Event]]) -> None:
        """Append what is made off the loop. A cancellation is delivered when it is durable.

        Raises:
            Stop: an answer could not be kept, or the journal failed.
        """
        gate = self._gate
        with gate.flight():
            made = SYNCS.submit(make)
            met = await through(made)
            events = made.result()
            if events:
                met = await gate.journal.append_from_loop(events) or met
        if met is not None:
            raise met
        gate.check_kept(events)

    def group(self, name: str = "group") -> Group:
        """Calls side by side: `async with run.group() as g: g.call(pay, …)`; then `g.results`, in call order."""
        return Group(self._gate, lambda: self._step_id(name), self._breathe)


async def _asked(ask: Callable[[Any], Any], request: Any) -> Any:
    """A model's answer, from a coroutine function on the loop or a plain one in a thread."""
    if inspect.iscoroutinefunction(ask):
        return await ask(request)
    answer = await in_own_thread(lambda: ask(request), "turn")
    return await answer if inspect.isawaitable(answer) else answer


class SyncRun(_Recorded):
    """A run as a plain agent sees it; everything blocks the calling thread. As `Run` otherwise."""

    def call(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a tool through the gate; as `Run.call`."""
        self._gate.poll()
        return pass_sync(self._gate, self._admit(tool, args, kwargs))

    def step(self, name: str, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Do a named unit of work; as `Run.step`."""
        self._gate.poll()
        step = self._step_id(name)
        replayed, value = self._replayed_step(step, work)
        if replayed:
            return value
        token = HERE.set(here(self.run_id).inside(step))
        try:
            told = record_result(blocking(work(*args, **kwargs)))
        finally:
            HERE.reset(token)
        answer = self._gate.redactor.answer(told)
        self._write(lambda: step_events(self._gate, step, answer))
        return restored(answer, _returns(work))

    def turn(self, ask: Callable[[Any], Any], request: Any) -> Any:
        """Ask a model once; as `Run.turn`."""
        gate = self._gate
        gate.poll()
        ticket = admit_turn(gate, request)
        if ticket.replay is not None:
            return ticket.replay.value
        if gate.extensions is not None:
            gate.extensions.before_model(ticket.turn_id, ticket.fingerprint, request)
        self._write(lambda: [ticket.start()])
        try:
            turn: Turn = heard(gate, blocking(ask(request)))
        except BaseException:
            self._write(lambda: [turn_end(ticket.turn_id, None)])
            raise
        self._write(lambda: answer_events(gate, ticket, turn))
        return turn.output

    def child(
        self, agent: Any, input: Any = None, *, name: str | None = None, budget: RunBudget | None = None,
        run_id: str | None = None, timeout_s: float | None = None,
    ) -> Any:  # fmt: skip
        """Let another agent do a part as a run of its own; as `Run.child`."""
        self._gate.poll()
        found = as_agent(agent)
        told = self._nursery.raise_sync(
            self._step_id(name or "child"), Wish(found, input, budget, run_id, timeout_s)
        )  # fmt: skip
        return restored(told, _returns(found.body))

    def _write(self, make: Callable[[], list[Event]]) -> None:
        with self._gate.flight():
            events = make()
            if events:
                self._gate.journal.append(events)
        self._gate.check_kept(events)

    def group(self, name: str = "group") -> SyncGroup:
        """Calls side by side, each in a thread: `with run.group() as g: g.call(pay, …)`; then `g.results`."""
        self._gate.poll()
        return SyncGroup(self._gate, lambda: self._step_id(name))
