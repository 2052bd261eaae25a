"""Whether a start needs a person, and who is asked, in one leg. What is recorded of it is said in `core/approvals`."""

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, Final, Protocol

import msgspec

from clew.core import approvals
from clew.core.approvals import Approve, Judgement, Reject
from clew.core.compose import Saying
from clew.core.events import Event
from clew.core.needs import Allow, Closing, Deny, Halt, Heard, Seek
from clew.core.policy import PATHS, Ask, Policy, path_texts, strictest, url_texts
from clew.core.redact import Redactor
from clew.core.state import ApprovalState
from clew.core.times import format_ms
from clew.errors import ClewError
from clew.runtime.bodies import MESSAGE_CHARS, text_of
from clew.runtime.call import Call
from clew.runtime.claims import Claims
from clew.runtime.journal import Journal
from clew.runtime.pool import NoThread, begin_thread, in_own_thread
from clew.runtime.tickets import Ticket
from clew.stores.base import Workspace

LOOK_S: Final = 0.2
ALLOW: Final = Allow()
PROPOSED: Final = Policy("ask")
"""What holds for a model's proposals where the agent has no policy."""


class ApprovalRequest(msgspec.Struct, frozen=True):
    """What a person is asked. Handed to an `approver`, which answers `Approve`, `Reject`, or None: it waits.

    Attributes:
        arguments: As recorded: JSON, with secrets hidden.
        effect: `operations`, `paths`, `urls`, `reversible`, `declared`.
        why: Why the policy wants a person to be asked.
        expires_at: Until when the question stands; empty when it does not lapse.
        over: Is the answer of no use any more: decided by somebody else, or the run is ending?
    """

    approval_id: str
    run_id: str
    step_id: str
    call_id: str
    key: str
    tool: str
    arguments: Mapping[str, Any]
    risk: str
    effect: Mapping[str, Any]
    why: str = ""
    expires_at: str = ""
    over: Callable[[], bool] = lambda: False


Approver = Callable[[ApprovalRequest], Any]


class OneLeg(Protocol):
    """What of a gate is needed here."""

    journal: Journal
    redactor: Redactor
    workspace: Workspace
    claims: Claims
    closing: Any
    agent: Any
    poll: Callable[[], None]

    def close(self, closing: Closing) -> None:
        """Nothing starts any more."""
        ...

    def check_open(self) -> None:
        """Raise `Stop` once the gate has closed."""
        ...

    def call_of(self, ticket: Ticket, attempt: int) -> Call:
        """The call as a policy sees it."""
        ...


class Approvals:
    """Judges starts by the agent's policy and by what people decided, and asks who can be asked. Lives for one leg."""

    def __init__(self, gate: OneLeg) -> None:
        self.gate = gate
        self.approver: Approver | None = None
        self._asking = threading.Lock()
        self._taking = threading.Lock()
        self._taken: set[str] = set()

    # May it start?

    def judge(self, ticket: Ticket, attempt: int) -> Allow | Deny | Seek:
        """A permission that is not used yet lets it start, a question that stands is waited for; else the policy."""
        asked, ticket.until_ms = self.of(ticket), 0
        if asked is not None:
            stands = approvals.standing(asked, self.gate.journal.clock.now_ms())
            if stands == "granted" and asked.capability == ticket.facts.capability:
                ticket.until_ms = asked.until_ms
                return ALLOW
            if stands == "pending":
                return Seek()
        said = self._by_policy(ticket, attempt)
        if said is None:
            return ALLOW
        if isinstance(said, Ask):
            return Seek(self._question(ticket, said, asked))
        return Deny(self.gate.redactor.text(said)[:MESSAGE_CHARS])

    def check_until(self, ticket: Ticket) -> None:
        """Right before its start: an extension, or a wait for a key, may have taken longer than a permission holds.

        Raises:
            Stop: it has lapsed; the gate has closed, and a resume asks anew.
        """
        if ticket.until_ms <= self.gate.journal.clock.now_ms():
            why = (
                f"the permission for {ticket.facts.step_id!r} lapsed at {format_ms(ticket.until_ms)}, before its start"
            )
            self.gate.close(Closing("approval_required", why))
            self.gate.check_open()

    def beside(self, ticket: Ticket, attempt: int) -> Seek | Halt:
        """After the gate has closed for an approval: what else needs one is asked for as well; nothing starts."""
        halt = Halt(self.gate.closing.reason)
        if self.gate.closing.reason != "approval_required":
            return halt
        said = self.judge(ticket, attempt)
        return said if isinstance(said, Seek) and said.said else halt

    def of(self, ticket: Ticket) -> ApprovalState | None:
        """The last approval of this very call."""
        state = self.gate.journal.state
        if not state.asked:
            return None
        asked = approvals.standing_of(state, ticket.facts.step_id)
        return asked if asked is not None and asked.key == ticket.facts.key else None

    def _by_policy(self, ticket: Ticket, attempt: int) -> Ask | str | None:
        """The strictest word of the agent's policy and of those that it inherited."""
        agent = self.gate.agent
        policy = PROPOSED if agent.policy is None and ticket.proposed else agent.policy
        if not agent.inherited:
            return None if policy is None else self._word_of(policy, ticket, attempt)
        asked = agent.inherited if policy is None else (*agent.inherited, policy)
        return strictest(self._word_of(each, ticket, attempt) for each in asked)

    def _word_of(self, policy: Any, ticket: Ticket, attempt: int) -> Ask | str | None:
        """What one policy says; one that fails denies."""
        try:
            if isinstance(policy, Policy):
                return policy.judge(ticket.tool.name, ticket.facts.capability, ticket.plain, self._resolve)
            said = policy(self.gate.call_of(ticket, attempt))
        except Exception as fault:  # noqa: BLE001  # whatever it raises, it did not allow
            return f"the policy failed: {type(fault).__name__}"
        return said if said is None or isinstance(said, Ask) else text_of(said)

    def _resolve(self, path: str) -> str | None:
        """Where a path leads below the workspace, links followed; None when it leads out of it."""
        workspace = self.gate.workspace
        try:
            return PurePath(workspace.resolve(path)).relative_to(workspace.resolve(".")).as_posix()
        except (ClewError, OSError, ValueError):
            return None

    def _question(self, ticket: Ticket, said: Ask, earlier: ApprovalState | None) -> tuple[Event, ...]:
        """The question as events; before it what nobody answered in time is closed."""
        now, hide = self.gate.journal.clock.now_ms(), self.gate.redactor
        arguments = hide.arguments(ticket.plain)
        closed = [approvals.lapsed(earlier, now)] if earlier is not None and not earlier.decision else []
        lapsed = earlier if earlier is not None and earlier.decision == "allow" and not earlier.used else None
        named = PATHS if ticket.facts.capability.effect == "workspace" else ()
        wanted = approvals.approval_required(
            ticket.facts,
            arguments,
            paths=[self._resolve(text) or text for text in path_texts(arguments, named)],
            urls=url_texts(arguments),
            why=hide.text(said.reason)[:MESSAGE_CHARS],
            expires_at="" if said.expires_in_s is None else format_ms(now + round(said.expires_in_s * 1000)),
            replaces=None if lapsed is None else _replaced(lapsed, now),
        )
        return (*closed, wanted)

    # Who is asked?

    def take(self, approval_id: str) -> bool:
        """Decide this one, here and now? Only the first who wants to may: two decisions of one leg would collide."""
        with self._taking:
            free = approval_id not in self._taken
            self._taken.add(approval_id)
            return free

    def consult(self, ticket: Ticket) -> Heard | None:
        """Ask the approver, while the inbox is looked after; None when it waits."""
        asked = self._open(ticket)
        if asked is None or self.approver is None:
            return self._decided(ticket)
        heard, done = list[Any](), threading.Event()

        def ask() -> None:
            try:
                heard.append(self._ask(ticket, asked))
            finally:
                done.set()

        try:
            begin_thread(ask, "approver")
        except NoThread:
            return None
        while not done.wait(LOOK_S):
            self.gate.poll()
            if self._over(ticket):
                return self._decided(ticket)
        return self._taken_in(ticket, asked, heard[0] if heard else None)

    async def consult_on_loop(self, ticket: Ticket) -> tuple[Heard | None, BaseException | None]:
        """As `consult`, without blocking the loop; a cancellation is handed back, and the question waits."""
        asked, approver = self._open(ticket), self.approver
        if asked is None or approver is None:
            return self._decided(ticket), None
        if inspect.iscoroutinefunction(approver):
            asking = asyncio.ensure_future(approver(self._request(ticket, asked)))
        else:
            try:
                asking = in_own_thread(lambda: self._ask(ticket, asked), "approver")
            except NoThread:
                return None, None
        while not asking.done():
            try:
                await asyncio.wait([asking], timeout=LOOK_S)
            except asyncio.CancelledError as cancelled:
                asking.cancel()
                return None, cancelled
            if self._over(ticket):
                asking.cancel()
                return self._decided(ticket), None
        failed = asking.cancelled() or asking.exception() is not None
        return self._taken_in(ticket, asked, None if failed else asking.result()), None

    def _open(self, ticket: Ticket) -> ApprovalState | None:
        asked = self.of(ticket)
        return asked if asked is not None and not asked.decision and self.gate.closing is None else None

    def _ask(self, ticket: Ticket, asked: ApprovalState) -> Any:
        """One question at a time; an approver that raises has not answered."""
        with self._asking:
            if self._over(ticket) or self.approver is None:
                return None
            try:
                return self.approver(self._request(ticket, asked))
            except Exception:  # noqa: BLE001  # whatever it raises, it was no answer
                return None

    def _request(self, ticket: Ticket, asked: ApprovalState) -> ApprovalRequest:
        arguments = self.gate.redactor.arguments(ticket.plain)
        named = PATHS if ticket.facts.capability.effect == "workspace" else ()
        return ApprovalRequest(
            asked.approval_id,
            self.gate.journal.state.run_id,
            asked.step_id,
            asked.call_id,
            asked.key,
            asked.tool,
            arguments,
            asked.risk,
            approvals.effect_of(
                ticket.facts.capability,
                [self._resolve(text) or text for text in path_texts(arguments, named)],
                url_texts(arguments),
            ),
            asked.why,
            format_ms(asked.expires_ms) if asked.expires_ms else "",
            lambda: self._over(ticket),
        )

    def _over(self, ticket: Ticket) -> bool:
        return self._open(ticket) is None

    def _taken_in(self, ticket: Ticket, asked: ApprovalState, said: object) -> Heard | None:
        """An answer counts when it is a clear one, in time, and nobody else decided first."""
        if not _clear(said) or self._over(ticket):
            return self._decided(ticket)
        if approvals.standing(asked, self.gate.journal.clock.now_ms()) != "pending" or not self.take(asked.approval_id):
            return None
        assert isinstance(said, Judgement)
        return heard(asked, hidden(said, self.gate.redactor), "approver", self.gate.journal.clock.now_ms())

    def _decided(self, ticket: Ticket) -> Heard | None:
        """What somebody else decided meanwhile, and has recorded; None while it waits."""
        state, asked = self.gate.journal.state, self.of(ticket)
        if asked is None or not asked.decision or asked.source == "expiry":
            return None
        if asked.decision == "allow":
            return Heard(allowed=True)
        call = state.calls.get(asked.step_id)
        answered = call is not None and call.answer is not None
        return Heard(allowed=False, answer=asked.reason if answered else None, detail=said_no(asked))

    # The end of a leg.

    def stale(self, *, ended: bool) -> list[Saying]:
        """Questions that the agent asked in an earlier leg and does not ask any more: closed, with why.

        `ended`: the agent has returned, so none of them is asked for again. Else only those in whose place it has
        asked for something else.
        """
        state, now = self.gate.journal.state, self.gate.journal.clock.now_ms()
        left = self.gate.claims.unasked(everywhere=ended)
        found = [state.approvals.get(asked.approval_id) for asked in left]
        why = "the agent ended without it" if ended else "the agent asks for something else in its place"
        return [approvals.invalidated(asked, why, now) for asked in found if asked is not None and not asked.decision]


def heard(asked: ApprovalState, said: Judgement, source: approvals.Source, at_ms: int) -> Heard:
    """A person's word as a walk takes it in, its record made."""
    event = approvals.resolution(asked, said, source=source, at_ms=at_ms)
    if isinstance(said, Approve):
        return Heard(allowed=True, event=event)
    detail = f"{asked.step_id} was denied by {said.by}: {said.reason}"
    return Heard(allowed=False, event=event, answer=said.reason if said.as_answer else None, detail=detail)


def said_no(asked: ApprovalState) -> str:
    """Who said no to what, and why."""
    return f"{asked.step_id} was denied by {asked.by}: {asked.reason}"


def hidden(said: Judgement, hide: Redactor) -> Judgement:
    """A person's word as it may be recorded."""
    return msgspec.structs.replace(said, by=hide.text(said.by), reason=hide.text(said.reason)[:MESSAGE_CHARS])


def _clear(said: object) -> bool:
    """Is this a yes or a no, by somebody and for a reason, that would not lapse at once?"""
    if not isinstance(said, Approve | Reject) or not (said.by.strip() and said.reason.strip()):
        return False
    return not isinstance(said, Approve) or said.expires_in_s is None or said.expires_in_s > 0


def _replaced(asked: ApprovalState, at_ms: int) -> Event:
    """The permission that is not good any more: which, by whom closed, and why a person is asked again."""
    told = {"approvalId": asked.approval_id}
    if approvals.standing(asked, at_ms) == "expired":
        return {**told, "by": "clock", "reason": f"given by {asked.by}, not used until {format_ms(asked.until_ms)}"}
    return {**told, "by": "agent", "reason": f"{asked.by} allowed a tool that says something else of its effect by now"}
