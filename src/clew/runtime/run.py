"""What an agent holds: `Run` for async agents, `SyncRun` for plain ones. Thin faces over one gate."""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from clew.core.budget import RunBudget
from clew.core.evaluation import Check
from clew.core.events import Event, turn_end
from clew.core.jsonable import record_result
from clew.runtime import recording
from clew.runtime.artifacts import Artifact, Data
from clew.runtime.bodies import blocking
from clew.runtime.drivers import pass_async, pass_sync
from clew.runtime.evaluating import admit_check, check_events, found_by, raised_in
from clew.runtime.face import Face, returns
from clew.runtime.nursery import Wish
from clew.runtime.place import HERE, here
from clew.runtime.pool import SYNCS, aside, through
from clew.runtime.siblings import Group, SyncGroup, in_turn
from clew.runtime.talking import say_now, talk_of
from clew.runtime.tickets import restored
from clew.runtime.tools import as_agent
from clew.runtime.turns import Turn, admit_turn, answer_events, asked, has_begun, heard, step_events


class Run(Face):
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
        return await pass_async(self._gate, await in_turn(self._gate, tool, args, kwargs))

    async def propose(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a tool that a model asked for; as `call`, but without a policy of the agent's a person is asked first.

        Not asked about is what has no effect and may be repeated.
        """
        await self._breathe()
        return await pass_async(self._gate, await in_turn(self._gate, tool, args, kwargs, proposed=True))

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
        return restored(answer, returns(work))

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

    async def artifact(self, name: str, data: Data, *, media_type: str | None = None) -> Artifact:
        """Keep content under a name; returns when content and record are durable. On replay nothing is added.

        Args:
            name: Of the artifact in this run, for people: printable, no path. It stands for one content.
            data: Bytes, a str (kept as UTF-8), the `pathlib.Path` of a file (relative to the workspace), or a stream
                opened in binary mode. A file or a stream is never in memory as a whole.
            media_type: What it is, as in `text/csv`; by the name's ending when left out.

        Raises:
            UsageError: `invalid_artifact_name`, `invalid_media_type`, `invalid_artifact_data`.
            Refused: `artifact_conflict`: the name has another content. `artifact_blocked`: there is a secret in it;
                that is recorded, the content is not kept.
            Storage: it cannot be kept; nothing is recorded.
        """
        await self._breathe()
        gate, met = self._gate, None
        async with self._shelf.turn_on_loop:
            with gate.flight():
                (said, fault), met = await aside(lambda: self._shelf.tried(name, data, media_type))
                if said:
                    met = await gate.journal.append_from_loop(said) or met
        struck = fault or met
        if struck is not None:
            raise struck
        return self._shelf.told(name)

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
            turn = heard(gate, await asked(ask, request))
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

    async def say(self, message: Mapping[str, Any]) -> str:
        """Say a message in the run's session, once: a replay that says it here again adds nothing. Tells its id.

        Redacted as an answer is. Say it from the agent's own line, not from calls side by side: its place is its id.

        Raises:
            UsageError: `run_without_session`, `value_not_json`. Stop: it could not be kept.
            Refused: `session_entry_conflict` when a replay says something else here.
        """
        await self._breathe()
        return str(await self._aside(talk_of(self._gate).saying(self._gate, message)))

    async def conversation(self) -> list[dict[str, Any]]:
        """What a model may be sent: what the session held when the run began, and what was said since.

        The same at this place on every replay. Every call has exactly one result; an interrupted one says so.
        """
        await self._breathe()
        return list((await self._aside(talk_of(self._gate).heard)).messages)

    async def _aside(self, work: Callable[[], Any]) -> Any:
        """Do something that blocks off the loop. A cancellation is delivered when it is done."""
        with self._gate.flight():
            done = SYNCS.submit(work)
            met = await through(done)
        if met is not None:
            raise met
        return done.result()

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
        return restored(told, returns(found.body))

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


class SyncRun(Face):
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
        return restored(answer, returns(work))

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

    def artifact(self, name: str, data: Data, *, media_type: str | None = None) -> Artifact:
        """Keep content under a name; as `Run.artifact`."""
        self._gate.poll()
        with self._shelf.turn, self._gate.flight():
            said, fault = self._shelf.tried(name, data, media_type)
            if said:
                self._gate.journal.append(said)
        if fault is not None:
            raise fault
        return self._shelf.told(name)

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

    def say(self, message: Mapping[str, Any]) -> str:
        """Say a message in the run's session, once; as `Run.say`."""
        self._gate.poll()
        return say_now(self._gate, talk_of(self._gate).saying(self._gate, message))

    def conversation(self) -> list[dict[str, Any]]:
        """What a model may be sent; as `Run.conversation`."""
        self._gate.poll()
        return list(talk_of(self._gate).heard().messages)

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
        return restored(told, returns(found.body))

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
