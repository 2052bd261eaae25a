"""The limits that a run may be given on the command line beside calls and time. What they mean is `core/budget`."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from cyclopts import Group, Parameter

LIMITS: Final = Group("Limits", sort_key=20)
Limit = Annotated[int | None, Parameter(show_default=False)]


@Parameter(name="*", group=LIMITS)
@dataclass(frozen=True)
class Limits:
    """What else is limited, over all legs of a run."""

    max_turns: Limit = None
    """Pause before a request to a model above this number."""

    max_tokens: Limit = None
    """Pause before the next start when providers have reported so many tokens."""

    max_cost: Annotated[float | None, Parameter(show_default=False)] = None
    """Pause before the next start when providers have reported so many dollars."""

    max_failures: Limit = None
    """Pause before the next start when more calls than this have failed."""

    max_steps: Limit = None
    """Pause before a step above this number; calls, turns and checks are steps."""

    max_retries: Limit = None
    """Pause before a further attempt above this number, of all calls together."""

    on_unmeasured: Annotated[Literal["pause", "continue"] | None, Parameter(show_default=False)] = None
    """When a turn reports no usage and tokens or cost are limited: pause (the default), or continue."""

    def said(self) -> dict[str, Any]:
        """Each limit by its name in the library, None where nothing was said."""
        return {
            "max_turns": self.max_turns,
            "max_tokens": self.max_tokens,
            "max_cost_usd": self.max_cost,
            "max_tool_failures": self.max_failures,
            "max_steps": self.max_steps,
            "max_retries": self.max_retries,
            "on_unmeasured": self.on_unmeasured,
        }


NO_LIMITS: Final = Limits()
