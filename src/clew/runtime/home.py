"""A home: the folder where runs live, and every deed on them. The only place that names concrete stores."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from clew.core.budget import RunBudget
from clew.core.checkup import Checkup, Survey
from clew.core.ids import check_id, new_run_id
from clew.core.needs import Closing
from clew.core.resume import ResumePlan
from clew.core.snapshot import RunResult
from clew.core.times import format_ms
from clew.errors import Refused, UsageError
from clew.runtime.approvals import Approver
from clew.runtime.bodies import a_loop_runs_here
from clew.runtime.checkup import check_up
from clew.runtime.children import nurse
from clew.runtime.clock import Clock, SystemClock, day_text
from clew.runtime.ensuring import born_meanwhile, check_session, ended_meanwhile, existing
from clew.runtime.extensions import Extension, load
from clew.runtime.finding import FOLDER, absolute, find_home, require_home
from clew.runtime.journal import Watcher
from clew.runtime.live import LegEnd, live_sync
from clew.runtime.looping import live_async
from clew.runtime.opening import HomeParts, Opening, Wanted, as_recorded, facts_now, reopen_run, start_with
from clew.runtime.orders import Orders, orders_of, say
from clew.runtime.pool import aside
from clew.runtime.recovery import Takeover, Waiver
from clew.runtime.reviewing import Said
from clew.runtime.shelf import Shelf
from clew.runtime.source import Sources
from clew.runtime.tools import Agent, as_agent
from clew.stores.base import BlobStore, KeyIndex, Processes, RunStore, SessionStore, Upkeep, Workspace
from clew.stores.blobs import FileBlobStore
from clew.stores.foreign import ForeignRunStore, ForeignSessionStore, is_foreign
from clew.stores.homefile import HomeFile
from clew.stores.jsonl import FileRunStore
from clew.stores.keys import FileKeyIndex, MemoryKeyIndex
from clew.stores.memory import MemoryBlobStore, MemoryRunStore
from clew.stores.processes import LocalProcesses
from clew.stores.sessions.files import FileSessionStore
from clew.stores.sessions.loose import LooseFile
from clew.stores.sessions.memory import MemorySessionStore
from clew.stores.survey import survey
from clew.stores.upkeep import FileUpkeep, MemoryUpkeep
from clew.stores.workspace import FileWorkspace


class Home(Shelf):
    """Where runs live: start, resume, settle, look. Making one touches nothing until the first run.

    Args:
        path: The folder itself (`.clew`); found upwards, or in the current folder, when left out.
        takeover: `refuse`: a run whose owner died is `Held` until an operator acts. `proven`: a standing order to go
            on where the owner is provably gone; it is journaled. `operator`: this is the operator's act.
        workspace: The folder that workspace tools may touch; the home's parent when left out.
        extensions: Code that looks on while its runs go, and may deny; each must be trusted.
        trusted: The trust list: to the id of each extension the capabilities that are granted to it.

    Raises:
        UsageError: `invalid_takeover`, `extension_invalid`, `extension_duplicate`.
        Refused: `extension_not_trusted`, `extension_capability_denied`.

    Source:
        DESIGN §6.
    """

    def __init__(
        self, path: str | Path | None = None, *, takeover: Takeover = "refuse", workspace: str | Path | None = None,
        store: RunStore | None = None, blobs: BlobStore | None = None, clock: Clock | None = None,
        extensions: Sequence[Extension] = (), trusted: Mapping[str, Collection[str]] | None = None,
        keys: KeyIndex | None = None, sessions: SessionStore | None = None,
    ) -> None:  # fmt: skip
        if takeover not in ("refuse", "proven", "operator"):
            raise UsageError(
                f"takeover is {takeover!r}",
                code="invalid_takeover",
                next="Say takeover='proven' to go on after provably dead owners, or leave it out.",
            )
        loaded = load(extensions, trusted)
        # Absolute from the beginning, for tools may change the current folder.
        self.path = absolute(path if path is not None else find_home() or FOLDER)
        self._in_files = store is None
        self._file = HomeFile(self.path) if store is None else None
        base, clock = self.path.parent, clock or SystemClock()
        parts = HomeParts(
            store=store or (ForeignRunStore if is_foreign(self.path) else FileRunStore)(self.path),
            blobs=blobs or FileBlobStore(self.path),
            clock=clock,
            base=base,
            workspace=absolute(workspace) if workspace is not None else base,
            takeover=takeover,
            workspaces=lambda root: FileWorkspace(Path(root), home=self.path),
            processes=LocalProcesses(clock.monotonic_s),
            sources=Sources(clock),
            extensions=loaded,
            # Beside a store that is not known here, an index of ours might not be where its runs are.
            keys=keys or (FileKeyIndex(self.path) if store is None else None),
            upkeep=_upkeep(self.path, store, blobs),
            sessions=sessions or (_sessions(self.path) if store is None else None),
        )
        super().__init__(parts)

    _loose = LooseFile

    @classmethod
    def memory(
        cls, *, takeover: Takeover = "proven", workspace: str | Path | None = None, clock: Clock | None = None,
        extensions: Sequence[Extension] = (), trusted: Mapping[str, Collection[str]] | None = None,
    ) -> "Home":  # fmt: skip
        """A home that lives as long as this process, for tests. Its workspace is a real folder: the current one."""
        kept: dict[str, Any] = {"store": MemoryRunStore(), "blobs": MemoryBlobStore(), "clock": clock}
        kept |= {"extensions": extensions, "trusted": trusted}
        kept |= {"keys": MemoryKeyIndex(), "sessions": MemorySessionStore()}
        return cls(FOLDER, takeover=takeover, workspace=workspace, **kept)

    @property
    def workspace(self) -> Workspace:
        """The files that workspace tools may touch; give it to `Call.loose` to try one by hand."""
        return self._parts.workspaces(str(self._parts.workspace))

    @property
    def processes(self) -> Processes:
        """What starts commands on this machine; give it to `Call.loose` to try `shell` by hand."""
        return self._parts.processes

    # Running.

    async def run(
        self, agent: Any, input: Any = None, *, run_id: str | None = None, budget: RunBudget | None = None,
        on_error: str = "pause", on_limit: str = "pause", signals: bool = False,
        notice: Callable[[str], None] | None = None, on_record: Watcher | None = None,
        approver: Approver | None = None, session: str | None = None,
    ) -> RunResult:  # fmt: skip
        """Start a run and see it to its end, its pause or its failure.

        Args:
            agent: A `@clew.agent`, or a plain or async function `agent(run, input)`.
            input: What it is asked; JSON.
            run_id: An id of yours; made when left out.
            budget: Limits; none when left out.
            on_error: `pause` (default) or `fail` when the agent raises.
            on_limit: `pause` (default) or `fail` at a limit.
            signals: Take Ctrl-C and SIGTERM while it runs (main thread only).
            notice: Told in words when a signal was taken, and how to resume; stderr when left out.
            on_record: Called with each record of this leg once it is durable, in their order and one at a time: for an
                async agent on its event loop, else in the thread that appended. One that raises is logged and called
                no more; the run does not depend on it.
            approver: Asked where a start needs a person, once the question is durable: `approver(request)`, plain (in
                a thread of its own) or async, returns `clew.Approve`, `clew.Reject`, or None to leave it waiting.
            session: The conversation that it goes on with, begun if it is not there: `run.say`, `run.conversation`.
                It is the run's alone until the leg has ended, and every later leg takes it up again.

        Raises:
            Held: `session_open_locked`. Refused: `run_id_conflict`. UsageError: `value_not_json`, `invalid_run_id`.
            Storage.
        """
        found = as_agent(agent)
        begin = self._starting(found, input, run_id, budget, session)
        orders = orders_of(on_error, on_limit, signals, notice, on_record, approver)
        return await self._live(found, *await aside(begin), orders)

    def run_sync(
        self, agent: Any, input: Any = None, *, run_id: str | None = None, budget: RunBudget | None = None,
        on_error: str = "pause", on_limit: str = "pause", signals: bool = True,
        notice: Callable[[str], None] | None = None, on_record: Watcher | None = None,
        approver: Approver | None = None, session: str | None = None,
    ) -> RunResult:  # fmt: skip
        """As `run`, from plain code; a plain agent gets a `SyncRun` and runs in this thread."""
        found = _callable_here(as_agent(agent))
        orders = orders_of(on_error, on_limit, signals, notice, on_record, approver)
        return self._live_sync(found, self._starting(found, input, run_id, budget, session)(), orders)

    def _starting(
        self, agent: Agent, prompt: Any, run_id: str | None, budget: RunBudget | None, session: str | None
    ) -> Callable[[], Opening]:
        chosen = (
            check_id(run_id)
            if run_id is not None
            else new_run_id(self._parts.clock.chance(16), day_text(self._parts.clock))
        )
        return lambda: start_with(self._parts, agent, prompt, session, run_id=chosen, budget=budget or RunBudget())

    async def ensure(self, agent: Any, input: Any = None, *, run_id: str, **how: Any) -> RunResult:
        """Start this run, continue it, or return it if it has finished; another input under its id is a conflict.

        Raises:
            Refused: `resume_input_mismatch`; otherwise as `run` and `resume`.
        """
        asked = as_recorded(as_agent(agent), input)
        state, met = await aside(lambda: existing(self.reader, run_id, asked))
        if met is not None:
            raise met
        session = how.pop("session", None)
        if state is None:
            try:
                return await self.run(agent, input, run_id=run_id, session=session, **how)
            except Refused as fault:
                state = born_meanwhile(self.reader, fault, run_id, asked)
        check_session(state, session)
        if state.finish is not None:
            return self.reader.result(state)
        try:
            return await self.resume(run_id, agent, **how)
        except Refused as fault:
            return ended_meanwhile(self.reader, fault, run_id)

    def ensure_sync(self, agent: Any, input: Any = None, *, run_id: str, **how: Any) -> RunResult:
        """As `ensure`, from plain code."""
        asked = as_recorded(as_agent(agent), input)
        state = existing(self.reader, run_id, asked)
        session = how.pop("session", None)
        if state is None:
            try:
                return self.run_sync(agent, input, run_id=run_id, session=session, **how)
            except Refused as fault:
                state = born_meanwhile(self.reader, fault, run_id, asked)
        check_session(state, session)
        if state.finish is not None:
            return self.reader.result(state)
        try:
            return self.resume_sync(run_id, agent, **how)
        except Refused as fault:
            return ended_meanwhile(self.reader, fault, run_id)

    async def resume(
        self, run_id: str, agent: Any, *, plan: ResumePlan | None = None, input: Any = msgspec.UNSET,
        budget: RunBudget | None = None, accept_config: Said | None = None, on_error: str = "pause",
        on_limit: str = "pause", signals: bool = False, notice: Callable[[str], None] | None = None,
        on_record: Watcher | None = None, approver: Approver | None = None,
    ) -> RunResult:  # fmt: skip
        """Let a stopped run go on by its plan: answered calls replay, open ones are asked after, nothing is guessed.

        A `plan` that was looked at is refused when the journal went on since. `accept_config` says who accepts a
        changed configuration, and why: a recorded waiver. The rest as `run`.

        Raises:
            NotFound: `unknown_run`. Held: `run_state_locked`, `takeover_refused`, `owner_not_proven`.
            Refused: `run_already_finished`, `resume_config_mismatch`, `resume_input_mismatch`, `foreign_run`,
                `plan_stale`, `home_copied`.
            Corrupt, Storage.
        """
        found = as_agent(agent)
        wanted = _wanted(plan, input, budget, accept_config, asks=approver is not None)
        opened, met = await aside(lambda: reopen_run(self._parts, found, check_id(run_id), wanted))
        orders = orders_of(on_error, on_limit, signals, notice, on_record, approver)
        return await self._live(found, opened, met, orders)

    def resume_sync(
        self, run_id: str, agent: Any, *, plan: ResumePlan | None = None, input: Any = msgspec.UNSET,
        budget: RunBudget | None = None, accept_config: Said | None = None, on_error: str = "pause",
        on_limit: str = "pause", signals: bool = True, notice: Callable[[str], None] | None = None,
        on_record: Watcher | None = None, approver: Approver | None = None,
    ) -> RunResult:  # fmt: skip
        """As `resume`, from plain code."""
        found = _callable_here(as_agent(agent))
        wanted = _wanted(plan, input, budget, accept_config, asks=approver is not None)
        opened = reopen_run(self._parts, found, check_id(run_id), wanted)
        orders = orders_of(on_error, on_limit, signals, notice, on_record, approver)
        return self._live_sync(found, opened, orders)

    async def _live(
        self, agent: Agent, opened: Opening, met: asyncio.CancelledError | None, orders: Orders
    ) -> RunResult:
        if met is not None:
            if opened.gate is not None:
                opened.gate.close(Closing("interrupted"))
                await live_async(opened.gate, agent, opened.state.input, opened.plan, orders)
            raise met
        if opened.gate is None:
            return self._ended_at_once(agent, opened, orders)
        nurse(self._parts, opened.gate)
        return self._result(agent, await live_async(opened.gate, agent, opened.state.input, opened.plan, orders))

    def _live_sync(self, agent: Agent, opened: Opening, orders: Orders) -> RunResult:
        if opened.gate is None:
            return self._ended_at_once(agent, opened, orders)
        nurse(self._parts, opened.gate)
        if agent.is_async:
            end = asyncio.run(live_async(opened.gate, agent, opened.state.input, opened.plan, orders))
        else:
            end = live_sync(opened.gate, agent, opened.state.input, opened.plan, orders)
        result = self._result(agent, end)
        if orders.notice is say and result.reason in ("interrupted", "terminated"):
            say(f"paused; go on with: clew resume {result.run_id}")
        return result

    def _ended_at_once(self, agent: Agent, opened: Opening, orders: Orders) -> RunResult:
        if opened.ended is not None:
            opened.ended.watch(orders.watch)
        return self._result(agent, LegEnd(opened.state))

    def _result(self, agent: Agent, end: LegEnd) -> RunResult:
        return self.reader.result(
            end.state,
            retry_in_s=end.retry_in_s,
            facts=lambda: facts_now(self._parts, end.state, agent, Wanted()),
            fault=end.fault,
        )

    # The home itself.

    def require(self) -> Self:
        """This home, if there is one.

        Raises:
            NotFound: `no_home` when nothing was ever started here.
        """
        if self._in_files:
            require_home(self.path)
        return self

    def unlock_copy(self, *, by: str, reason: str) -> dict[str, Any]:
        """Let the runs of a copied home go on, on a person's word: the original must never go on as well.

        Returns:
            What `home.json` says of it now.

        Raises:
            NotFound: `no_home`. Refused: `nothing_to_unlock`, `home_layout_unknown`.
            UsageError: `review_incomplete` when nobody or no reason is named. Storage.
        """
        said, file = Said(by, reason), self.require()._file
        if file is None:
            raise Refused("this home has no files", code="nothing_to_unlock", next="Go on with home.resume.")
        return file.unlock(said.by, said.reason, format_ms(self._parts.clock.now_ms()))

    def checkup(self, agent: Any = None) -> Checkup:
        """Look over the home and its machine; nothing is changed. `views.checkup` says what it means.

        Args:
            agent: Whose tools are looked at as well.

        Raises:
            NotFound: `no_home`.
        """
        look = (lambda: survey(self.path)) if self.require()._in_files else (lambda: Survey("memory"))
        return check_up(self.reader, look, None if agent is None else as_agent(agent))


def _upkeep(path: Path, store: RunStore | None, blobs: BlobStore | None) -> Upkeep | None:
    """Who looks after a home whose stores are ours; nobody after one of another program, or of a stranger's stores."""
    if isinstance(store, MemoryRunStore) and isinstance(blobs, MemoryBlobStore):
        return MemoryUpkeep(store, blobs)
    ours = (store is None and not is_foreign(path)) or type(store) is FileRunStore
    return FileUpkeep(path) if ours and blobs is None else None


def _sessions(path: Path) -> SessionStore:
    return (ForeignSessionStore if is_foreign(path) else FileSessionStore)(path)


def _callable_here(agent: Agent) -> Agent:
    """An agent that plain code may run here. `UsageError` (`event_loop_running`) before anything was touched."""
    if agent.is_async and a_loop_runs_here():
        raise UsageError(
            f"agent {agent.name!r} is async, and an event loop runs here already",
            code="event_loop_running",
            next="Await home.run or home.resume instead.",
            agent=agent.name,
        )
    return agent


def _wanted(
    plan: ResumePlan | None, prompt: Any, budget: RunBudget | None, accept: Said | None, *, asks: bool
) -> Wanted:
    waiver = None if accept is None else Waiver("config", accept.by, accept.reason)
    return Wanted(plan, prompt, budget, waiver, asks)
