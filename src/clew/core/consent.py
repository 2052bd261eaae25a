"""Who was asked in a journal of ours, and whether a start has their word: I-9. What starts is judged in `conduct`."""

from dataclasses import dataclass
from typing import Any

from clew.core.findings import Slip

Event = dict[str, Any]


@dataclass(slots=True)
class _Asked:
    """One question to a person."""

    key: str
    fingerprint: object
    decision: str = ""


class Consent:
    """The questions of one run and their answers, for the invariant checker; the last one about a key stands for it.

    That a permission is used by one start cannot be seen: for a second one the policy may have asked nobody.
    """

    __slots__ = ("_approvals", "_asked", "_note", "_run_id")

    def __init__(self, run_id: str, slip: Slip) -> None:
        self._run_id = run_id
        self._note = slip.note
        self._approvals: dict[str, _Asked] = {}
        self._asked: dict[str, _Asked] = {}

    def required(self, event: Event) -> None:
        """A question: one at a time about one key."""
        name, key = event.get("approvalId"), event.get("idempotencyKey")
        if type(name) is not str or name in self._approvals or type(key) is not str:
            self._note("I-9", "the question is asked twice, or is about nothing", str(name))
            return
        if key != f"{self._run_id}:{event.get('stepId')}:{event.get('callId')}":
            self._note("I-6", "the key of a question does not follow from run, step and call", name)
        waiting = self._asked.get(key)
        if waiting is not None and not waiting.decision:
            self._note("I-9", "the same is asked while the question before it is open", name)
        self._approvals[name] = self._asked[key] = _Asked(key, event.get("argumentsFingerprint"))

    def resolved(self, event: Event) -> None:
        """A decision: one a question."""
        name = event.get("approvalId")
        asked = self._approvals.get(name) if type(name) is str else None
        if asked is None or asked.decision:
            self._note("I-9", "a decision on a question that is not open", str(name))
            return
        asked.decision = str(event.get("decision"))
        # The agent does not ask for it any more; nobody said no.
        if event.get("source") == "invalidation":
            self._asked.pop(asked.key, None)

    def obeyed(self, key: str) -> None:
        """A receipt says that it was not started: whatever comes later is another start."""
        self._asked.pop(key, None)

    def used(self, key: str, fingerprint: object, step: str) -> None:
        """A start that somebody was asked about: for these very arguments, and after a yes."""
        asked = self._asked.get(key)
        if asked is None:
            return
        if asked.decision != "allow":
            self._note("I-9", f"starts although the question about it is {asked.decision or 'open'!r}", step)
        elif asked.fingerprint != fingerprint:
            self._note("I-9", "starts with other arguments than were approved", step)
