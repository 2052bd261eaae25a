"""The command `clew`. Only its front door; what it says comes from `views`, what it does from `runtime`."""

import sys
from collections.abc import Sequence

from clew.errors import ClewError, UsageError

_PARTS = ("cyclopts", "rich")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code (DESIGN §9)."""
    try:
        # The library must import without what only the command needs.
        from clew.cli.app import serve  # noqa: PLC0415  # and say what is missing when it is
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _PARTS:
            raise
        error = not_installed(missing.name or "")
        sys.stderr.write(f"clew: {error.message} [{error.code}]\nnext: {error.next}\n")
        return error.exit_code
    return serve(sys.argv[1:] if argv is None else argv)


def not_installed(name: str) -> ClewError:
    """The library is there, but not what the command needs."""
    return UsageError(
        f"the command needs {name!r}, which is not installed",
        code="cli_not_installed",
        next="Install what it needs with `pip install 'cyclopts>=4.5' 'rich>=13'`.",
        module=name,
    )
