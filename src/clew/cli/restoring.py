"""`clew diff` and `clew restore`: what a run's calls changed in files, and how it is put back."""

from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from clew.cli.desk import Desk, login
from clew.errors import Refused, Storage
from clew.runtime.home import Home
from clew.views.differences import (
    difference_json,
    difference_lines,
    restored_lines,
    restored_next,
    restored_summary,
)

MOST_LINES: Final = 80
_LEFT_ALONE: Final = ("conflict", "unknown")


@dataclass(frozen=True)
class Wanted:
    """What is to be put back, as it was typed."""

    checkpoint: str
    paths: tuple[str, ...]
    dry_run: bool = False
    merge: bool = False
    later: bool = False


def diff(desk: Desk, run: str, checkpoint: str | None) -> int:
    """Each checkpoint, or one, with its paths."""
    home = desk.home().require()
    run_id = home.find(run)
    found = home.diff(run_id, checkpoint)
    if desk.options.json:
        told = (difference_json(each.checkpoint, each.paths, each.shown) for each in found)
        desk.screen.answer_json({"runId": run_id, "checkpoints": told})
        return 0
    number = 0
    for number, each in enumerate(found, 1):
        lines = difference_lines(each.checkpoint, each.paths, each.shown, desk.when(home))
        desk.screen.answer_lines([""] if number > 1 else [])
        desk.screen.answer_lines(lines)
    if not number:
        desk.screen.tell(f"run {run_id} has no checkpoint: none of its calls declared paths")
    return 0


def changed_lines(desk: Desk, home: Home, run_id: str, checkpoint: str | None) -> list[str]:
    """What a call changed in files, as evidence for whoever settles it; the beginning, if that is much."""
    if checkpoint is None:
        return []
    (found,) = home.diff(run_id, checkpoint)
    lines = list(islice(difference_lines(found.checkpoint, found.paths, found.shown, desk.when(home)), MOST_LINES + 1))
    more = [f"… the rest by: clew diff {run_id} {checkpoint}"] if len(lines) > MOST_LINES else []
    return [*lines[:MOST_LINES], *more]


def restore(desk: Desk, run: str, wanted: Wanted, *, by: str | None, reason: str) -> int:
    """Put paths back, and say of each what became of it."""
    home = desk.home("operator").require()
    run_id = home.find(run)
    with desk.proof_of(home, run_id):
        report = home.restore(
            run_id,
            wanted.checkpoint,
            wanted.paths,
            by=by or login(home),
            reason=reason,
            dry_run=wanted.dry_run,
            merge=wanted.merge,
            later=wanted.later,
        )
    if desk.options.json:
        desk.screen.answer_json(report)
    else:
        desk.screen.answer_lines(restored_lines(report))
        for line in (restored_summary(report), *restored_next(report)):
            desk.screen.tell(line)
    return exit_code(report)


def exit_code(report: dict[str, Any]) -> int:
    """0 when every path stands as before; 13 when the machine refused one, 4 when one was left alone.

    Of a dry run 0: the question was answered.

    Source:
        DESIGN §9.
    """
    outcomes = [each["outcome"] for each in report["paths"]]
    if report["dryRun"]:
        return 0
    if "failed" in outcomes:
        return Storage.exit_code
    return Refused.exit_code if any(outcome in _LEFT_ALONE for outcome in outcomes) else 0
