"""How calls, steps and turns get in: their arguments, names and numbers, and what is recorded of them already."""

import threading
from collections import Counter
from typing import Any

from clew.core.answers import Answer, Unrecorded, read_answer
from clew.core.approvals import facts_of_asked
from clew.core.calls import AnswerRef, CallState
from clew.core.canon import fingerprint
from clew.core.events import CallFacts
from clew.core.ids import effect_key, step_id
from clew.core.jsonable import to_json
from clew.core.needs import Allow, Closing, Taken
from clew.core.redact import Redactor
from clew.core.resume import Facts, judge_call
from clew.core.review import missing_result_message
from clew.core.state import ApprovalState
from clew.errors import ClewError, Refused, Stop
from clew.runtime.claims import Claims
from clew.runtime.door import Door
from clew.runtime.journal import Journal
from clew.runtime.keys import Keys, asked_key, key_in
from clew.runtime.living import alive
from clew.runtime.place import Place
from clew.runtime.tickets import Ticket, facts_of, new_walk, recorded_walk
from clew.runtime.tools import Agent, Tool, as_tool
from clew.stores.base import BlobStore, Processes, RunStore


class Admission(Door):
    """A door that knows who comes: a recorded call with the plan's word on it, or a new one with ids of its own."""

    def __init__(
        self, journal: Journal, agent: Agent, *, store: RunStore, blobs: BlobStore, processes: Processes
    ) -> None:
        super().__init__(journal)
        self.agent = agent
        self.store = store
        self.blobs = blobs
        self.processes = processes
        self.redactor = Redactor(agent.secrets)
        self.tools = dict(agent.tools)
        self.claims = Claims(journal.state)
        self._numbers: dict[str, int] = {}
        self._steps: Counter[str] = Counter()
        self._step_names: set[str] = set()
        self._admitting = threading.Lock()
        self.keys: Keys | None = None

    def admit(
        self, given: Any, args: tuple[Any, ...], kwargs: dict[str, Any], place: Place, *, proposed: bool = False,
        sibling: bool = False,
    ) -> Ticket:  # fmt: skip
        """Let a call in: its arguments are JSON, it is a recorded one or a new one with ids of its own.

        `proposed` by a model; a `sibling` in a group may still come to be asked for when another one waits for that.

        Raises:
            Stop: the gate has closed, or closes now because the agent diverged.
            UsageError: `value_not_json`, `invalid_arguments`; nothing was started.
        """
        try:
            return self._admitted(given, args, kwargs, place, proposed, sibling)
        except _Unclaimed as early:
            self.diverge(early.fault)
            raise early.fault from None

    def admit_if_in_turn(
        self, given: Any, args: tuple[Any, ...], kwargs: dict[str, Any], place: Place, *, proposed: bool = False,
        sibling: bool = False,
    ) -> Ticket | None:  # fmt: skip
        """As `admit`, but None, and nothing is closed, while a recorded call of this tool is not asked for again here.

        Of calls side by side a later one may be recorded and an earlier one not: it came to its start first.
        """
        try:
            return self._admitted(given, args, kwargs, place, proposed, sibling)
        except _Unclaimed:
            return None

    def _admitted(
        self, given: Any, args: tuple[Any, ...], kwargs: dict[str, Any], place: Place, proposed: bool, sibling: bool
    ) -> Ticket:
        if not (sibling and self.closing is not None and self.closing.reason == "approval_required"):
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
                raise _Unclaimed(fault) from fault
            if recorded is not None:
                return self._recorded(tool, arguments, plain, recorded.step_id, proposed=proposed)
            business = None if tool.key is None else asked_key(tool, arguments, plain, self.redactor)
            held = self.claims.asked_for(place.path, tool.name, asked)
            facts = (
                self._new_facts(tool, place, asked, turn_id, business)
                if held is None
                else _held_facts(held, tool, turn_id, business)
            )
        walk = new_walk(tool, facts, self.redactor.arguments(plain))
        return Ticket(tool, facts, arguments, plain, walk, proposed=proposed)

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

    def _new_facts(
        self, tool: Tool, place: Place, asked: str, turn_id: str, business: dict[str, Any] | None
    ) -> CallFacts:
        run_id = self.journal.state.run_id
        path, name = place.path, tool.name
        step = step_id(path, name, self._next(f"{path}.{name}" if path else name))
        call_id = f"c{self._next('call')}"
        return CallFacts(
            run_id=run_id,
            step_id=step,
            call_id=call_id,
            key=effect_key(run_id, step, call_id),
            tool=name,
            turn_id=turn_id,
            fingerprint=asked,
            capability=tool.capability,
            business=business,
        )

    def _next(self, name: str) -> int:
        """The next number of a name: above all that are recorded and all that this leg gave out."""
        recorded, given = self.journal.state.numbers.get(name) or 0, self._numbers.get(name, 0)
        self._numbers[name] = number = max(recorded, given) + 1
        return number

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

    def _recorded(
        self, tool: Tool, arguments: dict[str, Any], plain: dict[str, Any], step: str, *, proposed: bool
    ) -> Ticket:
        """What the plan says of a call that the agent asks for again, as it stands now: a probe may have settled it."""
        call = self.journal.state.calls.get(step)
        assert call is not None
        facts = facts_of(self.journal.state.run_id, call, tool.capability)
        ticket = Ticket(tool, facts, arguments, plain, proposed=proposed)
        decision, reason = judge_call(self.journal.state, call, self.facts(call))
        if decision == "skip":
            ticket.replay = self._answer_of(call)
        elif decision in ("run", "rerun") or reason == "approval_required":
            facts.business = self._recorded_key(call)
            # The answer that a review brings was read above; here the recorded call starts (again) under its own key.
            ticket.walk = recorded_walk(tool, facts, call, rerun=decision == "rerun")
        elif decision == "probe":
            facts.business = self._recorded_key(call)
            ticket.walk = recorded_walk(tool, facts, call, doubt_ms=call.started_ms)
        else:
            ticket.end = Closing("unknown_effect" if decision == "review" else reason, reason)
        return ticket

    def _recorded_key(self, call: CallState) -> dict[str, Any] | None:
        """The business key with which a call was recorded: it goes on under that one, whatever its tool says now."""
        return key_in(self.store.record_at(self.journal.state.run_id, call.position))

    def hold(self, ticket: Ticket, attempt: int) -> Allow | Taken:
        """Take a call's business key for one attempt, durably; blocks."""
        assert self.keys is not None
        return self.keys.hold(self.journal.state, self.journal.nonce, ticket, attempt, self.flights.keys)

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


class _Unclaimed(Exception):
    """A call that must not start while a recorded one is unclaimed."""

    def __init__(self, fault: Refused) -> None:
        super().__init__(fault.message)
        self.fault = fault


def _held_facts(held: ApprovalState, tool: Tool, turn_id: str, business: dict[str, Any] | None) -> CallFacts:
    """Who a call is for which a person was asked before it is recorded; of its effect counts what the tool says now."""
    facts = facts_of_asked(held.key.partition(":")[0], held)
    facts.turn_id, facts.capability, facts.business = turn_id, tool.capability, business
    return facts
