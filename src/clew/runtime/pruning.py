"""Pruning a home: alone in it, every journal read, what goes recorded first. What may go, `core/pruning` decides."""

from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any

import msgspec

from clew.core.folding import take
from clew.core.pruning import DAY_MS, Plan, Rule, Uses, choose, over
from clew.core.state import RunState
from clew.core.times import format_ms
from clew.errors import Corrupt, Held, NotFound, Refused, UsageError
from clew.runtime.opening import HomeParts
from clew.runtime.reader import Reader
from clew.runtime.recovery import VERSION
from clew.stores.base import Leftover, Pruning, Upkeep

_LIVING = ("accepted", "running", "aborting", "stopped", "owner_elsewhere")


class Asked(msgspec.Struct, frozen=True):
    """What is asked of a prune; the members are those of `core.pruning.Rule`.

    Raises:
        UsageError: `invalid_retention`.
    """

    keep_days: float | None = None
    quota_bytes: int | None = None
    answers: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        days, quota = self.keep_days, self.quota_bytes
        days_told = days is None or (type(days) in (int, float) and 0 <= days < 1_000_000)
        if not days_told or not (quota is None or (type(quota) is int and quota >= 0)):
            raise UsageError(
                f"{quota!r} is no number of bytes" if days_told else f"{days!r} is no number of days",
                code="invalid_retention",
                next="Give a number of days, and a whole number of bytes, neither below 0; or leave them out.",
            )
        if self.answers and days is None and quota is None:
            raise UsageError(
                "answers go by age or by quota, and neither is given",
                code="invalid_retention",
                next="Say for how many days they are kept, or how much may lie there.",
            )


class Found(msgspec.Struct, frozen=True):
    """What a look over the home comes to: what goes, and which cut ends and temp files go with it."""

    plan: Plan
    temps: list[Leftover]
    torn: list[Leftover]


def prune_home(parts: HomeParts, reader: Reader, asked: Asked) -> dict[str, Any]:
    """Drop what may go, or only say what would. Blocking.

    Returns:
        The report: what went and why, what stays and why, how many bytes are free now.

    Raises:
        Held: `home_in_use`. Refused: `prune_unsupported`, `home_copied`, `home_layout_unknown`.
        Corrupt: a journal cannot be read, so nobody knows what it refers to; nothing was dropped. Storage.

    Source:
        DESIGN §7.
    """
    upkeep = parts.upkeep
    if upkeep is None:
        raise Refused(
            "this home has a store that clew cannot prune",
            code="prune_unsupported",
            next="Prune it by the means of that store.",
        )
    if asked.dry_run:
        found = _look(parts, upkeep, asked)
        return _report(found, asked, freed=0, at_work=_at_work(reader, parts.store.ids()))
    me = parts.store.identity()
    by = {name: me[name] for name in ("host", "pid", "user")} | {"version": VERSION}
    with upkeep.alone({"purpose": "prune", **by, "at": format_ms(parts.clock.now_ms())}) as is_alone:
        if not is_alone:
            raise _in_use(_at_work(reader, parts.store.ids()))
        found = _look(parts, upkeep, asked)
        freed = _carry_out(parts, upkeep, found, asked, by)
    return _report(found, asked, freed=freed, left=upkeep.stock())


def _carry_out(parts: HomeParts, upkeep: Upkeep, found: Found, asked: Asked, by: dict[str, Any]) -> int:
    # Halves that nobody finishes need no record; on a disk that is full they make room for the one that follows.
    freed = upkeep.clear(found.temps)
    if found.plan.drops or found.torn:
        told = {"keepDays": asked.keep_days, "quotaBytes": asked.quota_bytes, "answers": asked.answers}
        names = [each.name for each in found.torn]
        upkeep.note(Pruning(1, format_ms(parts.clock.now_ms()), by, told, found.plan.drops, names))
    freed += upkeep.drop([each.sha256 for each in found.plan.drops])
    return freed + upkeep.clear(found.torn)


def _look(parts: HomeParts, upkeep: Upkeep, asked: Asked) -> Found:
    """Read every journal, then decide."""
    stock = upkeep.stock()
    uses = [each for run_id in sorted(parts.store.ids()) for each in _uses_of(parts, run_id, stock, asked)]
    rule = Rule(parts.clock.now_ms(), asked.keep_days, asked.quota_bytes, asked.answers)
    leftovers = list(upkeep.leftovers())
    temps = [each for each in leftovers if each.why == "temp"]
    return Found(choose(stock, uses, rule), temps, _torn(leftovers, uses, rule))


def _uses_of(parts: HomeParts, run_id: str, stock: Collection[str], asked: Asked) -> Iterable[Uses]:
    """What a run's journal refers to; nothing for an empty file, which was never one."""
    state, uses = RunState(run_id), Uses(run_id)
    try:
        for record, position in parts.store.read(run_id):
            take(state, record, position)
            uses.see(record)
    except NotFound:
        return ()
    except Corrupt as fault:
        fault.message = f"nothing is pruned, for nobody knows what run {run_id!r} refers to: {fault.message}"
        fault.args, fault.facts["run"] = (fault.message,), run_id
        raise
    if not asked.dry_run:
        _require_left(parts, state)
    for digest in sorted(uses.manifests):
        # One that is damaged lists nothing that could still be put back by it.
        with suppress(NotFound, Corrupt):
            uses.list(parts.blobs.get(digest))
    uses.contents.intersection_update(stock)
    return (uses,)


def _require_left(parts: HomeParts, state: RunState) -> None:
    """Nobody holds the home, so a leg that is open was left by a death, or is of a clew that did not hold homes yet."""
    leg = state.unclosed_leg
    if leg is None or not state.own:
        return
    me = parts.store.identity()
    seen = parts.store.owner_state(leg.owner)
    if seen != "gone" and any(leg.owner.get(name) != me[name] for name in me):
        raise _in_use(
            [{"run": state.run_id, "pid": leg.owner.get("pid"), "host": leg.owner.get("host"), "state": seen}]
        )


def _torn(leftovers: Iterable[Leftover], uses: list[Uses], rule: Rule) -> list[Leftover]:
    """Cut ends go by retention as contents do, where a record says that they were cut."""
    if not rule.asked:
        return []
    gone, young_ms = over(uses), rule.now_ms - (rule.keep_days or 0) * DAY_MS
    named = {
        (each.run_id, piece)
        for each in uses
        if each.run_id in gone and (rule.keep_days is None or (each.ended_ms or 0) <= young_ms)
        for piece in each.pieces
    }
    torn = (each for each in leftovers if each.why == "torn")
    return [each for each in torn if (each.run, each.name.rpartition("/")[2]) in named]


def _at_work(reader: Reader, run_ids: Iterable[str]) -> list[dict[str, Any]]:
    """The runs that somebody runs now, as far as a reader can tell."""
    rows = (reader.row(run_id) for run_id in run_ids)
    return [
        {"run": row["runId"], **{name: row["leg"].get(name) for name in ("pid", "host")}, "state": row["shown"]}
        for row in rows
        if row["shown"] in _LIVING and row.get("leg")
    ]


def _in_use(runs: list[dict[str, Any]]) -> Held:
    elsewhere = [each["run"] for each in runs if each["state"] in ("elsewhere", "owner_elsewhere")]
    told = ", ".join(f"{each['run']} (pid {each['pid']} on {each['host']}, {each['state']})" for each in runs[:5])
    more = f" and {len(runs) - 5} more" if len(runs) > 5 else ""
    step = "Wait for them or pause them (`clew pause RUN`), then do it again; `--dry-run` says what would go."
    if elsewhere:
        step = f"See on that host whether run {elsewhere[0]!r} goes on; when it does not, `clew unlock {elsewhere[0]}`."
    return Held(
        f"the home is in use by {told or 'another process'}{more}; nothing was dropped",
        code="home_in_use",
        next=step,
        runs=[each["run"] for each in runs],
        owners=runs,
    )


def _report(
    found: Found, asked: Asked, *, freed: int, left: Collection[str] = (), at_work: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    plan = found.plan
    stubborn = {each.sha256 for each in plan.drops} & set(left)
    counts: dict[str, dict[str, int]] = {}
    for each in plan.drops:
        _count(counts, each.why, each.stored_bytes)
    for leftover in (*found.temps, *found.torn):
        _count(counts, leftover.why, leftover.stored_bytes)
    return {
        "dryRun": asked.dry_run,
        "freedBytes": freed,
        "wouldFreeBytes": sum(each["bytes"] for each in counts.values()),
        "blobsBytes": {"before": plan.before_bytes, "after": plan.after_bytes},
        "went": counts,
        "stayed": {why: {"count": count, "bytes": size} for why, (count, size) in plan.kept.items()},
        "quotaMet": None if asked.quota_bytes is None else plan.after_bytes <= asked.quota_bytes,
        "notRemoved": sorted(stubborn),
        "atWork": at_work or [],
        "dropped": [msgspec.to_builtins(each) for each in plan.drops],
        "files": [each.name for each in (*found.temps, *found.torn)],
    }


def _count(counts: dict[str, dict[str, int]], why: str, size: int) -> None:
    entry = counts.setdefault(why, {"count": 0, "bytes": 0})
    entry["count"] += 1
    entry["bytes"] += size
