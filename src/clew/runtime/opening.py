"""From an agent and a run id to an open leg with its gate: started new, or reopened by plan. Blocking."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from clew.core.budget import RunBudget
from clew.core.canon import fingerprint, fingerprint_text
from clew.core.compose import OPERATION_ID, Saying
from clew.core.jsonable import to_json
from clew.core.outcome import outcome_now
from clew.core.records import Payload
from clew.core.redact import Redactor
from clew.core.resume import Facts, ResumePlan, prepare_run_resume, with_approver
from clew.core.state import RunState
from clew.errors import Refused
from clew.runtime.clock import Clock
from clew.runtime.ending import publish
from clew.runtime.extensions import Extension
from clew.runtime.gate import Gate
from clew.runtime.heirs import check_inherited
from clew.runtime.journal import Journal
from clew.runtime.keybook import KeyBook
from clew.runtime.keys import Keys
from clew.runtime.living import alive
from clew.runtime.loading import check_not_loading
from clew.runtime.orphans import not_ended
from clew.runtime.reader import unreadable_blobs
from clew.runtime.recovery import (
    Reopened,
    Takeover,
    Waiver,
    end_leg,
    fail_sayings,
    give_birth,
    unfinished_business,
    unspoken,
)
from clew.runtime.reopening import blocked_reason, reopening
from clew.runtime.source import Sources, relative
from clew.runtime.stilling import still
from clew.runtime.talking import NO_SESSION, Beginning, holding, session_again, session_for
from clew.runtime.tools import Agent
from clew.stores.base import BlobStore, KeyIndex, Processes, RunStore, SessionStore, Upkeep, Workspace


class HomeParts(msgspec.Struct, frozen=True):
    """Where a home's runs live and work: stores, clock, and the folder that recorded paths are relative to."""

    store: RunStore
    blobs: BlobStore
    clock: Clock
    base: Path
    workspace: Path
    takeover: Takeover
    workspaces: Callable[[str], Workspace]
    processes: Processes
    sources: Sources
    extensions: tuple[Extension, ...] = ()
    keys: KeyIndex | None = None
    upkeep: Upkeep | None = None
    sessions: SessionStore | None = None


class Opening(msgspec.Struct, frozen=True):
    """A leg that is open (`gate`), or a state with nothing to run; then `ended` is the leg that said so, if any."""

    state: RunState
    gate: Gate | None = None
    plan: ResumePlan | None = None
    ended: Journal | None = None


def input_fingerprint(prompt: Any) -> str:
    """SHA-256 of an input: of its text if it is text, else of its canonical form."""
    return fingerprint_text(prompt) if isinstance(prompt, str) else fingerprint(prompt)


def as_recorded(agent: Agent, prompt: Any) -> Any:
    """An input as it is recorded and as the agent gets it in every leg: JSON, with secrets hidden.

    Raises:
        UsageError: `value_not_json`.
    """
    return Redactor(agent.secrets).answer(to_json(prompt, at="input"))


def start_run(
    place: HomeParts, agent: Agent, prompt: Any, *, run_id: str, budget: RunBudget, parent: Payload | None = None,
    session: Beginning = NO_SESSION,
) -> Opening:  # fmt: skip
    """Begin a run: born with its first append, the gate open; a child with the member `parent` in its start.

    Raises:
        Refused: `run_id_conflict`. UsageError: `value_not_json`, `invalid_run_id`. Storage.
    """
    asked = as_recorded(agent, prompt)
    config, source = agent.fingerprint(), place.sources.of(agent, place.base)
    start = {
        "configName": agent.name,
        "schemaVersion": 1,
        "configFingerprint": config.whole(),
        "initialPrompt": asked,
        "operationId": OPERATION_ID,
        "leg": None,
        "configParts": config.parts(),
        "input": input_fingerprint(asked),
        "agentPath": source.path,
        "workspace": relative(place.workspace, place.base),
        "tools": sorted(agent.tools),
        "codeDigest": source.digest,
        "limits": budget.as_json(),
        **({} if parent is None else {"parent": parent}),
        **session.start(),
    }
    journal = give_birth(place.store, place.clock, run_id, start)
    gate = _gate(place, journal, agent, budget)
    session.hand_to(gate)
    return Opening(journal.state, gate)


def start_with(
    place: HomeParts, agent: Agent, prompt: Any, session_id: str | None, *, run_id: str, budget: RunBudget
) -> Opening:
    """As `start_run`, in a session that is held before the run is born; `Held` (`session_open_locked`).

    `UsageError` (`run_while_loading`) out of a file that is loaded for its agent.
    """
    check_not_loading()
    session = session_for(place.sessions, place.clock, session_id, place.base)
    return holding(session, lambda: start_run(place, agent, prompt, run_id=run_id, budget=budget, session=session))


def _gate(place: HomeParts, journal: Journal, agent: Agent, budget: RunBudget) -> Gate:
    try:
        publish(journal)
        workspace = place.workspaces(str(place.base / str(journal.state.start.get("workspace", "."))))
        gate = Gate(
            journal,
            agent,
            store=place.store,
            blobs=place.blobs,
            budget=budget,
            workspace=workspace,
            processes=place.processes,
            extensions=place.extensions,
        )
        gate.keys = Keys(KeyBook(place.keys, place.store, place.blobs, place.clock), gate.redactor)
        return gate
    except BaseException:
        end_leg(journal)
        raise


class Wanted(msgspec.Struct, frozen=True):
    """How a resume is wanted: under which plan, input, limits, with what accepted, and can a person be asked?"""

    plan: ResumePlan | None = None
    prompt: Any = msgspec.UNSET
    budget: RunBudget | None = None
    accept_config: Waiver | None = None
    approver: bool = False


def reopen_run(place: HomeParts, agent: Agent, run_id: str, wanted: Wanted) -> Opening:
    """Open a stopped run for its next leg, by the plan.

    Raises:
        NotFound: `unknown_run`. Held: another writer, or an owner whose end is not proven or not to be acted on.
        Refused: `run_already_finished`, `foreign_run`, `resume_config_mismatch`, `resume_input_mismatch`, `plan_stale`.
        UsageError: `run_while_loading`. Corrupt, Storage.
    """
    check_not_loading()
    writer, session = place.store.open(run_id), NO_SESSION
    try:
        opened = Reopened(place.store, place.clock, writer, "resume")
        plan = plan_of(place, opened.state, agent, wanted)
        if plan is not None and wanted.approver:
            plan = with_approver(plan)
        opened.take_over(place.takeover)
        then = reopening(opened.state, plan)
        if _nothing_new(opened.state, plan):
            writer.close()
            return Opening(opened.state, None, plan)
        recorded = recorded_budget(opened.state)
        budget = wanted.budget if wanted.budget is not None else recorded
        waiver = _changed_waiver(opened.state, agent, wanted)
        limits = None if budget == recorded else budget.as_json()
        if plan is not None:
            session = session_again(place.sessions, place.clock, opened.state, place.base)
        how: dict[str, Any] = {"plan": plan, "waiver": waiver, "limits": limits, "beside": session.resume()}
        journal = begin_mended(place, opened, then, secrets=agent.secrets, **how)
    except BaseException:
        session.let_go()
        writer.close()
        raise
    gate = holding(session, lambda: _gate(place, journal, agent, budget))
    session.hand_to(gate)
    if journal.state.unclosed_leg is None:
        end_leg(journal)
        return Opening(journal.state, None, plan, journal)
    return Opening(journal.state, gate, plan)


def plan_of(place: HomeParts, state: RunState, agent: Agent | None, wanted: Wanted) -> ResumePlan | None:
    """The plan as it is now; None when a death cut off the end itself and there is nothing to decide.

    Raises:
        Refused: as `prepare_run_resume`, and `plan_stale` when the journal went on since the wanted plan was made.
    """
    if unfinished_business(state):
        return None
    if agent is not None:
        check_inherited(state, agent)
    config = None if agent is None else agent.fingerprint()
    plan = prepare_run_resume(state, config, facts_now(place, state, agent, wanted))
    made = wanted.plan
    if made is not None and (made.sequence, made.chain) != (plan.sequence, plan.chain):
        raise Refused(
            f"the plan for run {state.run_id!r} was made at record {made.sequence}; "
            f"the journal stands at {plan.sequence}",
            code="plan_stale",
            next="Make the plan again and look at it.",
            run=state.run_id,
        )
    return plan


def begin_mended(
    place: HomeParts, opened: Reopened, then: Sequence[Saying], *, secrets: Sequence[str] = (), **how: Any
) -> Journal:
    """Open the leg with what follows at once. An abort that was cut off is finished first: what still runs is ended.

    `then` is what belongs behind an end of another kind, or nothing; the rest as `Reopened.begin`.
    """
    if opened.state.state != "aborting":
        return opened.begin(then=then, **how)
    journal = opened.begin(**how)
    try:
        alive = still(place.processes, journal.state, Redactor(secrets)) | not_ended(place.store, journal.state)
        journal.append([*unspoken(journal.state), *fail_sayings("aborted", alive)])
    except BaseException:
        end_leg(journal)
        raise
    return journal


def facts_now(place: HomeParts, state: RunState, agent: Agent | None, wanted: Wanted) -> Facts:
    """What the plan must know, looked up now."""
    return Facts(
        at_ms=place.clock.now_ms(),
        tools={} if agent is None else {name: tool.offered() for name, tool in agent.tools.items()},
        unreadable_blobs=unreadable_blobs(place.blobs, state),
        living=alive(place.processes, state.unsettled(), Redactor(() if agent is None else agent.secrets)),
        accept_config=wanted.accept_config is not None,
        input=msgspec.UNSET if agent is None or wanted.prompt is msgspec.UNSET else as_recorded(agent, wanted.prompt),
    )


def _nothing_new(state: RunState, plan: ResumePlan | None) -> bool:
    """Paused, closed, and still waiting for the same: nothing to write down."""
    if plan is None or plan.probes or plan.given_up or state.unclosed_leg is not None:
        return False
    reason = blocked_reason(state, plan)
    return bool(reason) and state.pause is not None and outcome_now(state).finish_reason == reason


def _changed_waiver(state: RunState, agent: Agent, wanted: Wanted) -> Waiver | None:
    if wanted.accept_config is None:
        return None
    config = agent.fingerprint()
    changed = config.changed_since(state)
    if not changed:
        return None
    return msgspec.structs.replace(wanted.accept_config, changed=changed, config_parts=config.parts())


def recorded_budget(state: RunState) -> RunBudget:
    """The limits in force: those of the start, or of the last resume that brought others."""
    return RunBudget.from_json(state.limits)
