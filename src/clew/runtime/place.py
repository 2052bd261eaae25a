"""Where in a run the code that runs now stands. Carried by the context, so a bare thread has no place."""

from contextvars import ContextVar

import msgspec

from clew.errors import Refused


class Place(msgspec.Struct, frozen=True):
    """A run, the path of named steps around, and whether this is inside of a tool's body: then of which attempt."""

    run_id: str
    path: str = ""
    in_tool: bool = False
    key: str = ""
    attempt: int = 0

    def inside(self, step_id: str) -> "Place":
        """The place within a step."""
        return Place(self.run_id, step_id)


HERE: ContextVar[Place | None] = ContextVar("clew_place", default=None)


def here(run_id: str) -> Place:
    """The place of the code that runs now, in this run.

    Raises:
        Refused: `call_outside_of_step` from a thread that does not carry its step; `nested_call` from a tool's body.
    """
    place = HERE.get()
    if place is None or place.run_id != run_id:
        raise Refused(
            f"a call of run {run_id!r} comes from a thread or task that does not carry its step",
            code="call_outside_of_step",
            next="Use run.group() for parallel calls; a thread of your own must run in contextvars.copy_context().",
            run=run_id,
        )
    if place.in_tool:
        raise Refused(
            f"a tool's body calls run {run_id!r} while its own effect is open",
            code="nested_call",
            next="Call from the agent: a tool is one effect, and a second one inside it could not be judged alone.",
            run=run_id,
        )
    return place
