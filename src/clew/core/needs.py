"""What the walk of one effect asks for, what it is sent, and how it ends. Shapes only; the walk itself is `effect`."""

from typing import Any

import msgspec

from clew.core.answers import Answer, Unrecorded
from clew.core.checkpoint import Manifest, Whole
from clew.core.cover import Cover
from clew.core.events import spelt
from clew.core.review import CannotTell, Source, Verdict

# What the walk needs.


class Ask(msgspec.Struct, frozen=True):
    """May this attempt start? Answered by `Allow`, `Deny`, `Halt` or `Seek`.

    `again`: by idempotence, so no policy is asked.
    """

    attempt: int
    again: bool = False


class Append(msgspec.Struct, frozen=True):
    """Append what is said (events, moves of the operation) together, durably. `starts`: an attempt opens with it."""

    said: tuple[Any, ...]
    starts: bool = False

    @property
    def events(self) -> tuple[Any, ...]:
        """The same, event by event."""
        return spelt(self.said)


class Save(msgspec.Struct, frozen=True):
    """Keep these bytes as a blob. Answered by its digest, or None when they could not be kept."""

    data: bytes


class Hold(msgspec.Struct, frozen=True):
    """Take the call's business key for this attempt, durably. Answered by `Allow` or `Taken`."""

    attempt: int


class Guard(msgspec.Struct, frozen=True):
    """Keep how the paths that this attempt may change stand now, durably. Answered by `Guarded` or `Unguarded`."""

    attempt: int


class Look(msgspec.Struct, frozen=True):
    """See how this attempt has left the paths that were kept. Answered by `Looked`, or None: it could not be seen.

    `raised`: its body may have left something behind that is still at work.
    """

    attempt: int
    guarded: "Guarded"
    raised: bool = False


class Call(msgspec.Struct, frozen=True):
    """Run the tool's body as this attempt. Answered by an `Outcome`."""

    attempt: int


class Probe(msgspec.Struct, frozen=True):
    """Ask the outside world once. Answered by a `Verdict`."""

    attempt: int


class Consult(msgspec.Struct, frozen=True):
    """Ask a person about this step's approval, if one can be asked now. Answered by a `Heard`, or None: it waits."""

    step_id: str


class Now(msgspec.Struct, frozen=True):
    """Milliseconds since 1970."""


class Wait(msgspec.Struct, frozen=True):
    """Let so many seconds pass. Answered True when nobody may wait any longer."""

    seconds: float


Need = Ask | Append | Save | Hold | Guard | Look | Call | Probe | Consult | Now | Wait

# What it is sent.


class Allow(msgspec.Struct, frozen=True):
    """It may start."""


class Deny(msgspec.Struct, frozen=True):
    """The policy says no: that is the agent's answer."""

    reason: str


class Taken(msgspec.Struct, frozen=True):
    """Another call has the business key: who, in words and as facts; `answer` when its answer is to be this one's.

    `starting`: it is about to start, so a little later more will be known of it.
    """

    message: str
    holder: dict[str, Any]
    answer: Answer | None = None
    starting: bool = False


class Halt(msgspec.Struct, frozen=True):
    """Nothing more may start: a limit, a request to pause. Nothing is recorded of this call."""

    reason: str


class Seek(msgspec.Struct, frozen=True):
    """A person must allow it: `said` is the question as events, empty when it stands in the journal already."""

    said: tuple[Any, ...] = ()


class Heard(msgspec.Struct, frozen=True):
    """What was decided of an approval. `event` is to be recorded; None when somebody else has recorded it.

    `answer` is what the agent is told of a no, where it is told; `detail` says in words who said no and why.
    """

    allowed: bool
    event: Any = None
    answer: str | None = None
    detail: str = ""


class Guarded(msgspec.Struct, frozen=True):
    """How the paths stood, and how the tool says that it will leave them.

    Attributes:
        paths: By path; None where the whole workspace is kept, which `whole` names.
        expects: None when the tool does not say.
        result: What the tool says that it will return then; UNSET when it does not.
        reversible: False where nothing of it can be put back.
        cover: The whole workspace as `whole` has it, for the look afterwards.
        not_covered: What lies in a folder among the paths and is not kept, as `core.cover` tells it.
    """

    paths: Manifest | None
    expects: Manifest | None = None
    result: Any = msgspec.UNSET
    whole: Whole | None = None
    reversible: bool = True
    cover: Cover | None = None
    not_covered: tuple[dict[str, Any], ...] = ()


class Unguarded(msgspec.Struct, frozen=True):
    """They are not kept, so the body must not run: a path is `refused`, as the agent is told, or the run pauses."""

    message: str
    refused: bool = False


class Looked(msgspec.Struct, frozen=True):
    """How an attempt has left the paths; of a whole workspace what it changed, with `paths` as they were before.

    `unkept` are those of `after` whose content could be read and not be kept.
    """

    after: Manifest
    paths: Manifest | None = None
    not_covered: tuple[dict[str, Any], ...] = ()
    unkept: tuple[str, ...] = ()


class Returned(msgspec.Struct, frozen=True):
    """The tool returned this JSON value; `failed` when it says itself that it failed (`clew.Failed`)."""

    value: Any
    failed: str | None = None


class Raised(msgspec.Struct, frozen=True):
    """The tool raised; `nothing_happened` when that proves that its effect did not happen."""

    kind: str
    message: str
    nothing_happened: bool = False


class Cancelled(msgspec.Struct, frozen=True):
    """The call was cancelled while the tool ran; `before_start` when its body had not begun."""

    before_start: bool = False


Outcome = Returned | Raised | Cancelled

# How a walk ends.


class Answered(msgspec.Struct, frozen=True):
    """The agent has its answer."""

    answer: Answer | Unrecorded


class Closing(msgspec.Struct, frozen=True):
    """The gate closes: the run pauses for `reason`. `retry_in_s`: when a probe wants to be asked again."""

    reason: str
    detail: str = ""
    retry_in_s: float | None = None


class GaveUp(msgspec.Struct, frozen=True):
    """The probe gave the effect up: the run ends."""


class Interrupted(msgspec.Struct, frozen=True):
    """Cancelled, and nothing is open: the cancellation goes on to the caller."""


End = Answered | Closing | GaveUp | Interrupted


class ProbeFacts(msgspec.Struct, frozen=True):
    """How an attempt can be asked after: the probe's name and how long a request may still land (seconds).

    `source` is `checkpoint` where the files themselves are asked.
    """

    name: str
    in_doubt_s: float
    source: Source = "probe"

    @property
    def by(self) -> str:
        """Who settles by it, as a review says it."""
        return f"probe:{self.name}" if self.source == "probe" else self.name

    def has_said_all(self, verdict: Verdict) -> bool:
        """Is asking again of no use? Files that stand neither way stay so, unless they could not be looked at."""
        return self.source == "checkpoint" and isinstance(verdict, CannotTell) and verdict.retry_in_s is None
