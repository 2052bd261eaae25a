"""Shapes in which one speaks of a session: what it shows, what is wrong with it. How they are found is not here."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

Format = Literal["v1", "v2", "v3", "v4a", "v4b"]
"""Which of the five languages a file of lines is written in; v4a is the one that clew writes."""

ReadAt = Callable[[int, int], bytes]
"""So many bytes of the file from an offset on: `read(offset, size)`."""


class Remark(msgspec.Struct, frozen=True, rename="camel"):
    """Something that whoever reads a session should know, and where it stands; lines and bytes as in an editor.

    Attributes:
        code: A stable word, as `byte_order_mark`, `unknown_type`, `kept_range_lost`.
        text: It in words.
        line: From 1.
        byte: Where that line begins in the file, from 0.
        ids: The entries, calls or types that it is about.
    """

    code: str
    text: str
    line: int
    byte: int
    ids: tuple[str, ...] = ()


class Said(msgspec.Struct, frozen=True):
    """One message of a view.

    Attributes:
        message: As it is stored, with `role`; summaries have the roles `compactionSummary` and `branchSummary`.
        entry_id: The entry that it comes from; None for a message of a kept tail whose entry is not known.
    """

    message: dict[str, Any]
    entry_id: str | None = None

    @property
    def role(self) -> str:
        """Who says it."""
        return str(self.message["role"])

    @property
    def content(self) -> Any:
        """What is said: its content; of a summary its text, of a command its output."""
        for name in ("content", "summary", "output"):
            if name in self.message:
                return self.message[name]
        return None


class Totals(msgspec.Struct, frozen=True, rename="camel"):
    """What a session has cost as far as it was reported, over all branches; each stored call once.

    Attributes:
        messages: Entries that are messages.
        tokens: Sum of `totalTokens`.
        cost: Sum of `cost.total`, in dollars.
        unmeasured: Answers of a model of which nobody said what they used; zeros of an aborted one are no figure.
    """

    messages: int = 0
    input: int | float = 0
    output: int | float = 0
    cache_read: int | float = 0
    cache_write: int | float = 0
    tokens: int | float = 0
    cost: int | float = 0
    unmeasured: int = 0


class CallFound(msgspec.Struct, frozen=True, rename="camel"):
    """A tool call that stands in a session, and where.

    Attributes:
        why: What is odd about it, in words.
    """

    call_id: str
    tool: str
    entry_id: str
    line: int
    byte: int
    why: str = ""


class OpenOperation(msgspec.Struct, frozen=True, rename="camel"):
    """An operation that was started on a lane and has no end: the program died in it."""

    id: str
    lane: str
    kind: str
    line: int
    byte: int


class Judgement(msgspec.Struct, frozen=True, rename="camel"):
    """What is to be said of a session as a whole.

    Attributes:
        orphan_calls: Calls without a result on any branch below them: whether they took effect is unknown.
        double_results: Calls with several results on one branch.
        stray_results: Results without their call above them.
        unknown_effects: Calls that a v4a file says were started, must not be repeated, and have no result.
    """

    open_operations: tuple[OpenOperation, ...] = ()
    orphan_calls: tuple[CallFound, ...] = ()
    double_results: tuple[CallFound, ...] = ()
    stray_results: tuple[CallFound, ...] = ()
    unknown_effects: tuple[CallFound, ...] = ()
    warnings: tuple[Remark, ...] = ()


class View(msgspec.Struct, frozen=True):
    """What a conversation is now, from the leaf of one lane.

    Attributes:
        messages: The context, in order.
        level: The thinking level, `off` when nobody set one.
        model: `provider/model`, None when nobody set one.
        tools: Names of the active tools, None when nobody set them.
        labels: Label by entry id, over all branches.
        leaf: The entry that the next one would follow, None before the first.
        lanes: The leaf of each lane.
        entries: How many entries the file has, its header not counted.
    """

    messages: tuple[Said, ...]
    level: str
    model: str | None
    tools: tuple[str, ...] | None
    title: str | None
    labels: dict[str, str]
    totals: Totals
    leaf: str | None
    lanes: dict[str, str | None]
    entries: int
    warnings: tuple[Remark, ...] = ()


class Repair(msgspec.Struct, frozen=True, rename="camel"):
    """What a projection says otherwise than the view, and of which call or message.

    Attributes:
        code: `call_interrupted`, `result_moved`, `result_dropped`, `surrogate_replaced`.
        position: Of the message in the projection, or in the view for one that was dropped.
    """

    code: str
    call_id: str | None
    position: int


class Projection(msgspec.Struct, frozen=True):
    """The messages that a model may be sent, and how they differ from those of the view."""

    messages: tuple[dict[str, Any], ...]
    repairs: tuple[Repair, ...] = ()
