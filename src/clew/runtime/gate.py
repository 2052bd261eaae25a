"""The one door every call passes: it admits, judges by the plan, drives the walk, and closes when an effect is open."""

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from clew.core import needs
from clew.core.answers import Answer, Unrecorded, read_answer
from clew.core.budget import Exceeded, RunBudget, exceeded, out_of_time
from clew.core.calls import AnswerRef, CallState
from clew.core.canon import fingerprint
from clew.core.events import CallFacts, Event
from clew.core.ids import effect_key, step_id
from clew.core.jsonable import to_json
from clew.core.needs import Allow, Answered, Closing, Deny, End, GaveUp, Halt
from clew.core.redact import Redactor
from clew.core.resume import Facts, judge_call
from clew.core.review import missing_result_message
from clew.errors import ClewError, Refused, Stop
from clew.runtime import logs
from clew.runtime.bodies import MESSAGE_CHARS, text_of
from clew.runtime.claims import Claims
from clew.runtime.flights import Flights
from clew.runtime.journal import Journal
from clew.runtime.living import alive
from clew.runtime.place import Place
from clew.runtime.tickets import Ticket, deliver, facts_of, new_walk, recorded_walk
from clew.runtime.tools import Agent, Call, Tool, as_tool
from clew.stores.base import BlobStore, Processes, RunStore, Workspace

PATIENCE: Final = 1000
"""So often a plain agent is told to stop; then the leg ends under it, for it may never give in."""


class Gate:
    """One leg's door. Lives from the leg's first append to its last; `closing` says why nothing starts any more.

    Source:
        DESIGN §5; promises 2, 3, 5 and 8.
    """

    def __init__(
        self, journal: Journal, agent: Agent, *, store: RunStore, blobs: BlobStore, budget: RunBudget,
        workspace: Workspace, processes: Processes,
    ) -> None:  # fmt: skip
        self.journal = journal
        self.agent = agent
        self.store = store
        self.blobs = blobs
        self.budget = budget
        self.workspace = workspace
        self.processes = processes
        self.redactor = Redactor(agent.secrets)
        self.tools = dict(agent.tools)
        self.claims = Claims(journal.state)
        self.closing: Closing | None = None
        self.given_up = False
        self.aborting = ""
        self.limit: Exceeded | None = None
        self.fault: BaseException | None = None
        self.agent_fault: BaseException | None = None
        self.unrecorded: list[str] = []
        self.flights = Flights(self.break_down)
        self.flight = self.flights.flight
        self.interrupts = 0
        self.interruptible = False
        self.abandoned = False
        self.left = False
        self.depart: Callable[[], None] | None = None
        self._refusals = itertools.count(1)
        self.late: list[tuple[Ticket, int, needs.Outcome]] = []
        self.on_close: Callable[[], None] | None = None
        self.poll: Callable[[], None] = lambda: None
        journal.check_start = self.check_open
        self._proposed = journal.state.metrics.tool_calls
        self._numbers: dict[str, int] = {}
        self._steps: Counter[str] = Counter()
        self._step_names: set[str] = set()
        self._since_s = journal.clock.monotonic_s()
        self._admitting = threading.Lock()

    # Closing.

    def close(self, closing: Closing) -> None:
        """Nothing starts any more; an open effect outweighs every other reason."""
        if self.closing is None or (closing.reason == "unknown_effect" != self.closing.reason):
            self.closing = closing
        self.flights.awaited = True
        if self.on_close is not None:
            self.on_close()

    def wake_by(self, waker: Callable[[], None]) -> None:
        """Call this when the gate closes, and then, or behind the agent's end, whenever a call or a turn is over."""
        self.on_close = self.flights.landed = waker

    def check_open(self) -> None:
        """Tell the agent that the gate has closed.

        Raises:
            Stop: always once it has.
            Storage: when the journal took a failed append.
        """
        if self.fault is not None:
            raise Stop(f"the journal can no longer be written: {self.fault}") from self.fault
        if self.closing is not None:
            if (
                self.depart is not None
                and next(self._refusals) % PATIENCE == 0
                and not (self.flights.count or self.left)
            ):
                self.depart()
            raise Stop(f"the run is pausing: {self.closing.reason}")
        if self.aborting:
            raise Stop("the run is aborting")

    def check_kept(self, events: Sequence[Event]) -> None:
        """After an append: an answer that could not be kept must not be gone on from.

        Raises:
            Stop: the gate has closed for it.
        """
        if self.closing is not None and all(event["type"] == "turn_end" for event in events):
            self.check_open()

    def break_down(self, fault: BaseException, ticket: Ticket | None = None) -> None:
        """The journal failed: remember what ended but could not be recorded."""
        first, self.fault = self.fault is None, self.fault or fault
        if ticket is not None and ticket.ran:
            self.unrecorded.append(ticket.facts.key)
        self.close(Closing("storage"))
        if first:
            logs.poisoned(self.journal.state.run_id, fault)

    def diverge(self, fault: Refused) -> None:
        """The agent does not do again what is recorded: close, and tell it so.

        Raises:
            Stop: always.
        """
        self.close(Closing("resume_divergence", fault.message))
        self.check_open()

    # Admission.

    def admit(self, given: Any, args: tuple[Any, ...], kwargs: dict[str, Any], place: Place) -> Ticket:
        """Let a call in: its arguments are JSON, it is a recorded one or a new one with ids of its own.

        Raises:
            Stop: the gate has closed, or closes now because the agent diverged.
            UsageError: `value_not_json`, `invalid_arguments`; nothing was started.
        """
        self.check_open()
        tool = self._known(given)
        arguments = tool.bind(args, kwargs)
        plain = to_json(arguments, at="args")
        asked = fingerprint(plain)
        turn_id = f"turn-{self.journal.state.metrics.turns}"
        with self._admitting:
            try:
                recorded = self.claims.call(place.path, tool.name, asked)
            except Refused as fault:
                self.diverge(fault)
                raise
            if recorded is not None:
                return self._recorded(tool, arguments, plain, recorded.step_id)
            facts = self._new_facts(tool, place, asked, turn_id)
        return Ticket(tool, facts, arguments, plain, new_walk(tool, facts, self.redactor.arguments(plain)))

    def _known(self, given: Any) -> Tool:
        if isinstance(given, str):
            found = self.tools.get(given)
            if found is None:
                raise Refused(
                    f"agent {self.agent.name!r} has no tool {given!r}",
                    code="unknown_tool",
                    next="Declare it with the agent: @clew.agent(tools=[…]).",
                    tool=given,
                )
            return found
        tool = as_tool(given)
        known = self.tools.setdefault(tool.name, tool)
        # Equal, not identical: every look at a method makes a new one.
        if (known is not tool and known.body != tool.body) or tool.name in self._step_names:
            raise Refused(
                f"two tools, or a tool and a step, are called {tool.name!r}",
                code="tool_capability_conflict",
                next="Give one of them another name: @clew.tool(name=…).",
                tool=tool.name,
            )
        return known

    def _new_facts(self, tool: Tool, place: Place, asked: str, turn_id: str) -> CallFacts:
        run_id = self.journal.state.run_id
        step = self._next_step(place.path, tool.name)
        call_id = f"c{self._next('call')}"
        return CallFacts(
            run_id=run_id,
            step_id=step,
            call_id=call_id,
            key=effect_key(run_id, step, call_id),
            tool=tool.name,
            turn_id=turn_id,
            fingerprint=asked,
            capability=tool.capability,
        )

    def _next_step(self, path: str, name: str) -> str:
        base = f"{path}.{name}" if path else name
        return step_id(path, name, self._next(base))

    def _next(self, name: str) -> int:
        """The next number of a name: above all that are recorded and all that this leg gave out."""
        recorded = self.journal.state.numbers.get(name) or 0
        self._numbers[name] = max(self._numbers.get(name, 0), recorded) + 1
        return self._numbers[name]

    def next_in_leg(self, path: str, name: str) -> str:
        """The id of the next step of this name here, counted from the beginning of the leg, as the agent replays."""
        base = f"{path}.{name}" if path else name
        with self._admitting:
            self._step_names.add(name)
            self._steps[base] += 1
            return step_id(path, name, self._steps[base])

    def next_turn(self) -> str:
        """The id of a new turn."""
        with self._admitting:
            return f"turn-{self._next('turn')}"

    # Recorded calls.

    def _recorded(self, tool: Tool, arguments: dict[str, Any], plain: dict[str, Any], step: str) -> Ticket:
        """What the plan says of a call that the agent asks for again, as it stands now: a probe may have settled it."""
        call = self.journal.state.calls.get(step)
        assert call is not None
        facts = facts_of(self.journal.state.run_id, call, tool.capability)
        ticket = Ticket(tool, facts, arguments, plain)
        decision, reason = judge_call(self.journal.state, call, self.facts(call))
        if decision == "skip":
            ticket.replay = self._answer_of(call)
        elif decision in ("run", "rerun"):
            # The answer that a review brings was read above; here the recorded call starts (again) under its own key.
            ticket.walk = recorded_walk(tool, facts, call, rerun=decision == "rerun")
        elif decision == "probe":
            ticket.walk = recorded_walk(tool, facts, call, doubt_ms=call.started_ms)
        else:
            ticket.end = Closing("unknown_effect" if decision == "review" else reason, reason)
        return ticket

    def facts(self, call: CallState) -> Facts:
        """What the plan must know about now to judge this call."""
        offered = {name: tool.offered() for name, tool in self.tools.items()}
        return Facts(self.journal.clock.now_ms(), offered, living=alive(self.processes, [call], self.redactor))

    def _answer_of(self, call: CallState) -> Answer | Unrecorded:
        if call.answer is not None:
            return self.read_answer(call.answer)
        review = call.settled_by
        assert review is not None
        return Unrecorded(missing_result_message(call.tool, review.by))

    def read_answer(self, ref: AnswerRef) -> Answer:
        """An answer by its place in the journal.

        Raises:
            Stop: it is not readable any more; the gate has closed, for an unknown answer is no error to go on from.
        """
        try:
            event = self.store.record_at(self.journal.state.run_id, ref.position).payload["event"]
            return read_answer(event, None if ref.blob is None else self.blobs.get(ref.blob))
        except (ClewError, ValueError) as fault:
            self.close(Closing("result_missing", f"the answer at byte {ref.position} cannot be read: {fault}"))
            raise Stop("the run is pausing: result_missing") from fault

    # What drivers ask.

    def decide(self, ticket: Ticket, attempt: int, *, again: bool = False) -> Allow | Deny | Halt:
        """May this attempt start? The gate is open, the limits hold, the policy agrees."""
        if self.closing is not None:
            return Halt(self.closing.reason)
        limit = self._spend(new=ticket.walk is not None and not ticket.walk.recorded)
        if limit is not None:
            self.limit = limit
            return Halt(limit.code)
        denial = None if again else self._ask_policy(ticket, attempt)
        return Allow() if denial is None else Deny(self.redactor.text(denial)[:MESSAGE_CHARS])

    def _spend(self, *, new: bool) -> Exceeded | None:
        """Count a new call, unless a limit is reached; one at a time, for threads ask as well."""
        with self._admitting:
            limit = exceeded(self.budget, calls=self._proposed if new else -1, active_s=self.active_s())
            if new and limit is None:
                self._proposed += 1
            return limit

    def _ask_policy(self, ticket: Ticket, attempt: int) -> str | None:
        """What the policy says; one that fails denies."""
        if self.agent.policy is None:
            return None
        try:
            denial = self.agent.policy(self.call_of(ticket, attempt))
        except Exception as fault:  # noqa: BLE001  # whatever it raises, it did not allow
            return f"the policy failed: {type(fault).__name__}"
        return None if denial is None else text_of(denial)

    def check_time(self) -> None:
        """Refuse a turn or step when the time is used up, by closing the gate."""
        self.check_open()
        if self.flights.ended:
            raise Stop("the agent has ended")
        limit = out_of_time(self.budget, self.active_s())
        if limit is not None:
            self.limit = limit
            self.close(Closing(limit.code))
            self.check_open()

    def active_s(self) -> float:
        """Seconds the agent has been running, over all legs."""
        here = self.journal.clock.monotonic_s() - self._since_s
        return self.journal.state.active_ms / 1000 + here

    def call_of(self, ticket: Ticket, attempt: int) -> Call:
        """The call as the tool and its probe see it."""
        facts = ticket.facts
        return Call(
            facts.key, tool=facts.tool, attempt=attempt, arguments=ticket.plain, workspace=self.workspace,
            processes=self.processes, called_off=self.called_off,
        )  # fmt: skip

    def called_off(self) -> bool:
        """Is the run to end at once? Looks into the inbox first where the agent's own thread does it, which waits."""
        self.poll()
        return bool(self.aborting)

    def save(self, data: bytes) -> str | None:
        """Keep bytes; None when the machine refuses, for the fact itself is still to be written."""
        try:
            return self.blobs.put(data)
        except Exception:  # noqa: BLE001  # whatever the blob store raises, it did not keep them
            return None

    def returned_late(self, ticket: Ticket, attempt: int) -> Callable[[needs.Outcome], None]:
        """Where a body that was left behind says how it ended after all."""
        return lambda outcome: self.late.append((ticket, attempt, outcome))

    def conclude(self, ticket: Ticket, end: End) -> Any:
        """Hand the agent what it is told, the same way live and replayed.

        Raises:
            Stop: the effect is open; the gate has closed.
            ToolError: the answer is an error.
        """
        if isinstance(end, Answered):
            return deliver(ticket.tool, end.answer)
        self.note(end)
        self.check_open()
        raise AssertionError("an interrupted call is ended by its driver")

    def note(self, end: End) -> None:
        """Take in how a call ended: an open effect closes the gate, a given-up one ends the run."""
        if isinstance(end, GaveUp):
            self.given_up = True
            self.close(Closing("effect_given_up"))
        elif isinstance(end, Closing):
            self.close(end)
