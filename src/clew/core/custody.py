"""What checkpoints in a journal of ours may do, judged from DESIGN alone: I-8. Of attempts judges `conduct`."""

from typing import Any

from clew.core.findings import Slip


class Custody:
    """The checkpoints of one run, for the invariant checker; shares no rule with `guarding`."""

    __slots__ = ("_known", "_left", "_note")

    def __init__(self, slip: Slip) -> None:
        self._note = slip.note
        self._known: dict[str, tuple[Any, Any]] = {}
        self._left: set[str] = set()

    def see(self, payload: dict[str, Any], attempt: int, status: str) -> None:
        """One record of a checkpoint of a step.

        Args:
            payload: What it says.
            attempt: The last attempt of that step's call; 0 when there is none, or no call.
            status: What is known of that attempt.
        """
        name, of = payload.get("checkpointId"), (payload.get("stepId"), payload.get("attempt"))
        if type(name) is not str:
            self._note("I-8", "a checkpoint without a name", str(name))
        elif "after" not in payload:
            if name != f"k{len(self._known) + 1}":
                self._note("I-8", f"the checkpoint after k{len(self._known)} has another number", name)
            if of[1] != attempt + 1:
                self._note("I-8", f"a checkpoint of attempt {of[1]!r} while the last is {attempt}", name)
            self._known[name] = of
        elif self._known.get(name) != of or of[1] != attempt:
            self._note("I-8", "how an attempt left its paths, without a checkpoint of it", name)
        elif name in self._left:
            self._note("I-8", "how an attempt left its paths is said twice", name)
        else:
            if status not in ("committed", "unknown"):
                self._note("I-8", f"how an attempt left its paths is said while it is {status!r}", name)
            self._left.add(name)
