"""`clew prune`, and `clew show` where it is about artifacts. Imports no agent."""

import contextlib
import re
import sys
from pathlib import Path
from typing import Final

from clew.cli.desk import Desk
from clew.errors import Refused, UsageError
from clew.runtime.shelves import KeptArtifact
from clew.views.kept import artifact_lines, pruned_lines

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]?)(?:i?B)?", re.IGNORECASE)
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def prune(desk: Desk, keep_days: float | None, quota: str | None, *, answers: bool, dry_run: bool) -> int:
    """Drop what nobody needs, and say what went and what stayed."""
    quota_bytes = None if quota is None else size_of(quota)
    report = desk.home().require().prune(
        keep_days=keep_days, quota_bytes=quota_bytes, answers=answers, dry_run=dry_run
    )  # fmt: skip
    if desk.options.json:
        desk.screen.answer_json(report)
    else:
        desk.screen.answer_lines(pruned_lines(report))
    return 0


def size_of(text: str) -> int:
    """Bytes from what a person types: `500M`, `2G`, `1.5GiB`; a unit is 1024 of the one before.

    Raises:
        UsageError: `invalid_retention`.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"{text!r} is no size",
            code="invalid_retention",
            next="Give a number of bytes, or one with K, M, G or T behind it: --quota 500M.",
        )
    return int(float(found[1]) * _UNITS[found[2].upper()])


def show(desk: Desk, run: str, name: str | None, output: str | None) -> int:
    """The artifacts of a run; or one of them, to stdout or into a new file."""
    home = desk.home().require()
    if name is None:
        if output is not None:
            raise UsageError(
                "--output is for one artifact",
                code="invalid_command_line",
                next="Say which: clew show RUN --artifact NAME --output FILE.",
            )
        rows = home.artifacts(run)
        if desk.options.json:
            desk.screen.answer_json(rows)
        else:
            desk.screen.answer_lines(artifact_lines(rows, desk.when(home)))
        return 0
    kept = home.artifact(run, name)
    if output is not None:
        _save(kept, Path(output))
        desk.screen.tell(f"{output} is written")
    elif not desk.options.json:
        _to_stdout(desk, kept)
    if desk.options.json:
        desk.screen.answer_json(kept.row | ({} if output is None else {"output": output}))
    return 0


def _save(kept: KeptArtifact, path: Path) -> None:
    """A new file with the content, whole; nothing is there when it cannot be."""
    try:
        file = path.open("xb")
    except FileExistsError:
        raise Refused(
            f"there is something at {str(path)!r} already",
            code="file_exists",
            next="Name another file; nothing is ever replaced.",
            path=str(path),
        ) from None
    except OSError as fault:
        raise UsageError(
            f"no file can be made at {str(path)!r}: {fault.strerror}",
            code="invalid_output",
            next="Name a file in a folder that is there.",
            path=str(path),
        ) from None
    try:
        with file:
            for piece in kept.pieces():
                file.write(piece)
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def _to_stdout(desk: Desk, kept: KeptArtifact) -> None:
    """Byte for byte, after it was read once: that it is damaged is said behind its end."""
    if sys.stdout.isatty():
        raise UsageError(
            "a terminal would obey what stands in an artifact",
            code="invalid_output",
            next="Send it into a file or a program: --output FILE, or `clew show … | less`.",
        )
    for _ in kept.pieces():
        pass
    for piece in kept.pieces():
        desk.screen.answer_bytes(piece)
