"""What is advised, so that it works when it is typed as it stands: with the home that was named. No command here."""

import re
import shlex
from typing import Final

COMMANDS: Final = (
    "run", "ls", "show", "diff", "resume", "settle", "approve", "deny", "pause", "steer", "abort", "restore", "verify",
    "unlock", "doctor", "find", "prune", "certify", "session",
)  # fmt: skip
# Only these lines are ours from end to end; what a run was asked, or answered, is shown as it is.
_ADVICE: Final = re.compile(r" *(?:(?:next|or|see|hint|… the rest by):|files ) *")
_COMMAND: Final = re.compile(rf"\bclew (session [a-z]+|{'|'.join(COMMANDS)})\b(?=(?P<rest>[^`;,)]*))")


def as_typed(line: str, home: str | None) -> str:
    """A line of advice with `--home` behind the words of each command; any other line as it is."""
    return with_home(line, home) if home is not None and _ADVICE.match(line) else line


def with_home(advice: str, home: str | None) -> str:
    """An advice with `--home` behind the words of each command in it, where a home was named and it names none."""
    if home is None:
        return advice
    return _COMMAND.sub(lambda found: _named(found, home), advice)


def _named(found: re.Match[str], home: str) -> str:
    rest = found["rest"]
    if "--home" in rest or "--help" in rest:
        return found[0]
    return f"{found[0]} --home {shlex.quote(home)}"
