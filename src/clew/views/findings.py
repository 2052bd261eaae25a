"""What the invariant checker found, on a page: where, what is wrong, which promise it breaks, what to do."""

from collections.abc import Mapping
from typing import Any, Final

from clew.views.plain import count_text, one_line

Facts = Mapping[str, Any]

_OUTSIDE: Final = "look outside, under its key in `clew show RUN --effects`, whether it happened, and how often"
_COPY: Final = "bring the journal back from a copy of the home"
_NEXT: Final = {
    "I-1": _COPY,
    "I-2": _COPY,
    "I-3": _COPY,
    "I-4": _OUTSIDE,
    "I-5": "read what stands there with `clew show RUN --log`",
    "I-6": _OUTSIDE,
    "I-7": _OUTSIDE,
    "I-8": "do not restore from this checkpoint",
    "I-9": "ask who was to approve it, and " + _OUTSIDE,
    "I-10": _OUTSIDE,
    "I-11": "read the moves of the run with `clew show RUN --log`",
    "I-12": _OUTSIDE,
}


def finding_lines(found: Facts) -> list[str]:
    """The findings of one run, two lines each; nothing when there are none or nobody looked.

    Args:
        found: What `verify` tells, or the facts of its error: `findings` and `findingCount`.
    """
    told, count = found.get("findings", ()), found.get("findingCount", 0)
    if not count:
        return _session_lines(found)
    rest = [] if count == len(told) else [f"  and {count - len(told)} more"]
    last = "  This is no crash: a program wrote what it must not, or somebody edited it. Keep a copy, and report it."
    return [
        f"  {count_text(count, 'finding')}:",
        *(line for one in told for line in _lines(one)),
        *rest,
        last,
        *_session_lines(found),
    ]


def _session_lines(found: Facts) -> list[str]:
    """That the run's session could not be looked at."""
    session = found.get("session")
    if session is None or session["error"] is None:
        return []
    error = session["error"]
    what = one_line(error["message"], 300)
    return [f"  how far its session has come cannot be told: {what} [{error['code']}]"]


def _lines(finding: Facts) -> list[str]:
    subject = f"{one_line(str(finding['subject']), 200)}: " if finding["subject"] else ""
    what = one_line(str(finding["what"]), 300)
    return [
        f"  line {finding['line']}, {subject}{what} [{finding['label']}: {finding['invariant']}]",
        f"    next: {_NEXT[finding['label']]}",
    ]
