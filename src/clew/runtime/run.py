"""What an agent holds: `Run` for async agents, `SyncRun` for plain ones. Thin faces over one gate."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from clew.core.evaluation import Check
from clew.core.events import Event, step_output, turn_end
from clew.core.ids import check_name
from clew.core.jsonable import record_result
from clew.errors import UsageError
from clew.runtime import recording
from clew.runtime.bodies import blocking
from clew.runtime.clock import now_text, random_float, random_uuid
from clew.runtime.drivers import pass_async, pass_sync
from clew.runtime.evaluating import admit_check, check_events, found_by, raised_in
from clew.runtime.gate import Gate
from clew.runtime.place import HERE, here
from clew.runtime.pool import SYNCS, in_own_thread, through
from clew.runtime.siblings import Group, SyncGroup
from clew.runtime.steering import Steering
from clew.runtime.tickets import Ticket, restored
from clew.runtime.tools import RESERVED
from clew.runtime.turns import Turn, admit_turn, answer_events, has_begun, heard, step_events


class _Recorded:
    """What both faces have: who the run is, and values that are recorded so that a replay sees them again."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._steering = Steering(gate)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._gate.journal.state.run_id

    @property
    def workspace(self) -> str:
        """The folder that workspace tools may touch."""
        return self._gate.workspace.root

    @property
    def config_fingerprint(self) -> str:
        """SHA-256 of what the agent's author declared when the run began, 64 hex digits."""
        return str(self._gate.journal.state.start["configFingerprint"])

    @property
    def stopping(self) -> str:
        """Why nothing starts any more: a reason, `aborted`, or empty while things may start."""
        return recording.stopping(self._gate)

    def recorded(self, kind: str) -> dict[str, Any] | None:
        """The payload of the last record of a kind (`loop`), of this leg or an earlier one; None without one."""
        return recording.recorded(self._gate, kind)

    def pause(self, reason: str, message: str = "") -> None:
        """Pause the run for a reason of the agent's own, a code in snake_case; raises `Stop`, which is to pass."""
        recording.pause(self._gate, reason, message)

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

    def _admit(self, tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, proposed: bool = False) -> Ticket:
        return self._gate.admit(tool, args, kwargs, here(self.run_id), proposed=proposed)

    def _path(self) -> str:
        """The step around the code that runs now; a turn may be asked from a thread that carries none."""
        place = HERE.get()
        return place.path if place is not None and place.run_id == self.run_id else ""

    def _step_id(self, name: str) -> str:
        check_name(name, "step")
        if name in RESERVED or name in self._gate.tools:
            raise UsageError(
                f"a step cannot be called {name!r}",
                code="invalid_step_name",
                next="Choose a name that is neither a tool's nor one of clew's own.",
                name=name,
            )
        self._gate.check_going()
        return self._gate.next_in_leg(here(self.run_id).path, name)

    def _replayed_step(self, step: str, work: Callable[..., Any]) -> tuple[bool, Any]:
        recorded = self._gate.journal.state.steps.get(step)
        if recorded is None:
            self._gate.begin_step()
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

    async def propose(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a tool that a model asked for; as `call`, but without a policy of the agent's a person is asked first.

        Not asked about is what has no effect and may be repeated.
        """
        await self._breathe()
        return await pass_async(self._gate, self._admit(tool, args, kwargs, proposed=True))

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

    async def check(self, name: str, look: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Check:
        """Check the work: `look(*args, **kwargs)`, async or plain, only looks; it returns a bool or a `clew.Check`.

        Looked at once; on replay what it found is told again. One that raises has not passed. A run is ready for
        release only when at least one check ran and all of them passed.
        """
        await self._breathe()
        place = here(self.run_id)
        ticket = admit_check(self._gate, place.path, name)
        if ticket.replay is not None:
            return ticket.replay
        token = HERE.set(place.inside(ticket.step))
        try:
            made = look(*args, **kwargs)
            found = found_by(self._gate, await made if inspect.isawaitable(made) else made)
        except Exception as fault:  # noqa: BLE001  # whatever it raises, it did not pass
            found = found_by(self._gate, raised_in(fault))
        finally:
            HERE.reset(token)
        await self._write(lambda: check_events(self._gate, ticket, found))
        return found

    async def record(self, kind: str, payload: Any) -> None:
        """Put a fact of a kind (`loop`) into the journal; returns when it is durable.

        Raises:
            UsageError: `invalid_record`, `invalid_record_kind`, `value_not_json`; nothing was written.
        """
        await self._breathe()
        here(self.run_id)
        said = recording.draft(self._gate, kind, payload)
        with self._gate.flight():
            met = await self._gate.journal.append_from_loop([said])
        if met is not None:
            raise met

    async def turn(self, ask: Callable[[Any], Any], request: Any) -> Any:
        """Ask a model once: `ask(request)`, async or plain, returns `clew.Turn(output, usage)` or a bare output.

        The request is on disk before the model is asked, the answer before anything is done with it.
        """
        await self._breathe()
        gate = self._gate
        ticket = admit_turn(gate, request, self._path())
        if ticket.replay is not None:
            return ticket.replay.value
        if gate.extensions is not None:
            await gate.extensions.before_model_on_loop(ticket.turn_id, ticket.fingerprint, request)
        try:
            await self._write(lambda: [ticket.start()])
            turn = heard(gate, await _asked(ask, request))
        except BaseException:
            if has_begun(gate, ticket):
                with gate.flight():
                    await gate.journal.append_from_loop([turn_end(ticket.turn_id, None)])
            raise
        await self._write(lambda: answer_events(gate, ticket, turn))
        return turn.output

    async def steering(self) -> list[str]:
        """What people have told this run (`clew steer`) since the last reading; a replay reads the same here."""
        await self._breathe()
        step, recorded = self._steering.at_this_place()
        if recorded is not None:
            return recorded
        waiting, told = self._steering.take()
        if not told:
            self._steering.nothing(step)
            return []
        try:
            await self._write(lambda: self._steering.events(step, waiting, told))
        except asyncio.CancelledError:
            self._steering.give_back(told)
            raise
        return told

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

    def propose(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a tool that a model asked for; as `Run.propose`."""
        self._gate.poll()
        return pass_sync(self._gate, self._admit(tool, args, kwargs, proposed=True))

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

    def check(self, name: str, look: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Check:
        """Check the work; as `Run.check`."""
        self._gate.poll()
        place = here(self.run_id)
        ticket = admit_check(self._gate, place.path, name)
        if ticket.replay is not None:
            return ticket.replay
        token = HERE.set(place.inside(ticket.step))
        try:
            found = found_by(self._gate, blocking(look(*args, **kwargs)))
        except Exception as fault:  # noqa: BLE001  # whatever it raises, it did not pass
            found = found_by(self._gate, raised_in(fault))
        finally:
            HERE.reset(token)
        self._write(lambda: check_events(self._gate, ticket, found))
        return found

    def record(self, kind: str, payload: Any) -> None:
        """Put a fact of a kind (`loop`) into the journal; as `Run.record`."""
        self._gate.poll()
        here(self.run_id)
        said = recording.draft(self._gate, kind, payload)
        with self._gate.flight():
            self._gate.journal.append([said])

    def turn(self, ask: Callable[[Any], Any], request: Any) -> Any:
        """Ask a model once; as `Run.turn`."""
        gate = self._gate
        gate.poll()
        ticket = admit_turn(gate, request, self._path())
        if ticket.replay is not None:
            return ticket.replay.value
        if gate.extensions is not None:
            gate.extensions.before_model(ticket.turn_id, ticket.fingerprint, request)
        try:
            self._write(lambda: [ticket.start()])
            turn: Turn = heard(gate, blocking(ask(request)))
        except BaseException:
            if has_begun(gate, ticket):
                self._write(lambda: [turn_end(ticket.turn_id, None)])
            raise
        self._write(lambda: answer_events(gate, ticket, turn))
        return turn.output

    def steering(self) -> list[str]:
        """What people have told this run; as `Run.steering`."""
        self._gate.poll()
        step, recorded = self._steering.at_this_place()
        if recorded is not None:
            return recorded
        waiting, told = self._steering.take()
        if not told:
            self._steering.nothing(step)
            return []
        self._write(lambda: self._steering.events(step, waiting, told))
        return told

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
