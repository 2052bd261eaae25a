"""`clew ls`, `clew show` and `clew verify`: look, never touch. No agent's file and no framework is imported."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from clew.cli.desk import Desk
from clew.core.ids import match_id
from clew.core.known import KnownEnd, gone, read_known, unknown
from clew.core.records import Record
from clew.core.snapshot import effect_rows
from clew.core.state import RunState
from clew.errors import ClewError, Corrupt, UsageError
from clew.runtime.home import Home
from clew.runtime.reader import Seen
from clew.views.account import account_lines, verdict_line
from clew.views.effects import effects_table
from clew.views.findings import finding_lines
from clew.views.plain import one_line
from clew.views.rows import blocks
from clew.views.timeline import line_of, log_lines

LOOK_S = 0.2
MOVING = ("accepted", "running", "aborting", "stopped")
EXIT_CORRUPT = Corrupt.exit_code


def ls(desk: Desk) -> int:
    """All runs, the last started first."""
    home = desk.home().require()
    rows = list(home.runs())
    if desk.options.json:
        desk.screen.answer_json(rows)
    elif not rows:
        desk.screen.tell("no runs yet; start one with `clew run FILE:AGENT INPUT`")
    else:
        desk.screen.answer_lines(blocks(rows, desk.when(home)))
    return 0


def show(desk: Desk, run: str, *, effects: bool, log: bool, follow: bool) -> int:
    """One run: its account, its effects, or every record of it."""
    home = desk.home().require()
    run_id = home.find(run)
    if log or follow:
        for record in _following(home, run_id) if follow else home.reader.records(run_id):
            _show_record(desk, home, record)
        return 0
    seen = home.reader.see(run_id) if effects else home.reader.examine(run_id)
    if effects:
        _show_effects(desk, home, seen.state)
    elif desk.options.json:
        desk.screen.answer_json(home.reader.unrolled(seen))
    else:
        desk.screen.answer_lines(_page(desk, home, seen))
    return 0


def _page(desk: Desk, home: Home, seen: Seen) -> list[str]:
    state, place = seen.state, home.reader.store.locate(seen.state.run_id)
    account, effects = home.reader.outline(seen), effect_rows(state)
    page = account_lines(account, state.start, effects, place, desk.when(home))
    head, *rest = desk.block(home, state.run_id)
    return [head, *page, *rest]


def _show_effects(desk: Desk, home: Home, state: RunState) -> None:
    found = home.reader.effects(state)
    if desk.options.json:
        desk.screen.answer_json(found)
    else:
        desk.screen.answer_lines(effects_table(found, desk.when(home)))


def _show_record(desk: Desk, home: Home, record: Record) -> None:
    if desk.options.json:
        desk.screen.answer_json(msgspec.to_builtins(record))
    else:
        desk.screen.answer_lines(log_lines(line_of(record), desk.when(home)))


def _following(home: Home, run_id: str) -> Iterator[Record]:
    """All records, and each new one until nobody writes this run any more."""
    reader, told, known, row = home.reader, 0, -1, {}
    while True:
        size = reader.store.size_bytes(run_id)
        if size != known:
            row, known = reader.row(run_id), size
        # Judged before reading: what was written until then is read below.
        moving = row["shown"] != "unreadable" and reader.shown(row) in MOVING
        if size != told:
            last = told
            for record in reader.records(run_id):
                if record.sequence > last:
                    yield record
                    last = record.sequence
            told = last
        if not moving:
            return
        time.sleep(LOOK_S)


def verify(desk: Desk, run: str | None, *, deep: bool = False, against: str | None = None) -> int:
    """Check one journal, or all, to the end. 12 when one of them is not what was written, or contradicts itself.

    `against`: a file with an earlier verdict; 12 as well when a run has not come as far as that says.
    """
    known = None if against is None else read_known(_content(against))
    home = desk.home().require()
    if run is not None:
        found = _verified(desk, home, run, known, deep=deep)
        if desk.options.json:
            desk.screen.answer_json(found)
        else:
            desk.screen.answer_lines([verdict_line(found), *finding_lines(found)])
        return _exit_of(found)
    judged = [_verdict(home, run_id, known, deep=deep) for run_id in sorted({*home.reader.store.ids(), *(known or ())})]
    verdicts, exits = [verdict for verdict, _ in judged], [code for _, code in judged]
    if not judged:
        desk.screen.tell("no runs yet: nothing to verify")
    if desk.options.json:
        desk.screen.answer_json(verdicts)
    else:
        desk.screen.answer_lines(line for verdict, code in judged for line in _verdict_lines(verdict, code))
    return EXIT_CORRUPT if EXIT_CORRUPT in exits else max(exits, default=0)


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as fault:
        raise UsageError(
            f"the verdict to compare with cannot be read: {fault}",
            code="invalid_verdict",
            next="Give the file that `clew verify --json > FILE` wrote.",
            path=path,
        ) from None


def _verified(desk: Desk, home: Home, run: str, known: dict[str, KnownEnd] | None, *, deep: bool) -> dict[str, Any]:
    """What is found of one run; of one that cannot be followed, what the checker found is told before the error."""
    end = None
    if known is not None:
        # By its part of an id a run that is gone would not be found, and that is what is asked.
        run_id = match_id(run, {*home.reader.store.ids(), *known}) if run != "@last" else home.find(run)
        run, end = run_id, known.get(run_id)
        if end is None:
            raise unknown(run_id)
        if run_id not in home.reader.store.ids():
            raise gone(end)
    try:
        return home.verify(run, deep=deep, known=end)
    except Corrupt as error:
        if not desk.options.json:
            desk.screen.answer_lines(finding_lines(error.facts))
        raise


def _exit_of(found: Mapping[str, Any]) -> int:
    return EXIT_CORRUPT if found["missingBlobs"] or found.get("findingCount") else 0


def _verdict(home: Home, run_id: str, known: dict[str, KnownEnd] | None, *, deep: bool) -> tuple[dict[str, Any], int]:
    """What is found of one run, and the exit code of that alone."""
    end = (known or {}).get(run_id)
    try:
        if end is not None and run_id not in home.reader.store.ids():
            raise gone(end)
        found = home.verify(run_id, deep=deep, known=end)
    except ClewError as error:
        return {"runId": run_id, **error.as_json()}, error.exit_code
    return found, _exit_of(found)


def _verdict_lines(verdict: dict[str, Any], code: int) -> list[str]:
    error = verdict.get("error")
    if not isinstance(error, dict):
        return [verdict_line(verdict), *finding_lines(verdict)]
    # A journal that this user may not open is not said to be damaged.
    word = "CORRUPT" if code == EXIT_CORRUPT else "UNREADABLE"
    head = f"{word}  {verdict['runId']}  {one_line(str(error['message']), 500)} [{error['code']}]"
    return [head, f"  next: {one_line(str(error['next']), 500)}", *finding_lines(error["facts"])]
