"""What a doctor says of a home: each thing that was found out, how bad it is, and what to do. Facts in, words out."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal

import msgspec

from clew.core.checkup import Checkup, Some, Survey, Talks, Volume
from clew.core.times import parse_ms
from clew.views.plain import count_text, one_line, size_text

Level = Literal["ok", "note", "warning", "problem"]
LEVELS: Final[tuple[Level, ...]] = ("ok", "note", "warning", "problem")

REFUSED: Final = 4
CORRUPT: Final = 12
STORAGE: Final = 13
"""A problem has the exit code that a run would meet there (DESIGN §9); the doctor ends with the highest."""

MIB: Final = 1 << 20
_NO_ROOM: Final = 64 * MIB
_LITTLE_ROOM: Final = 1024 * MIB
_FEW_INODES: Final = 1000
_SKEW_MS: Final = 2000
_2025_MS: Final = 1_735_689_600_000
_2100_MS: Final = 4_102_444_800_000
_UNPROVED: Final = "use a local disk, or say each time that it is gone: clew unlock RUN …"
_IN_MEMORY: Final = ("tmpfs", "ramfs")
_NO_BARRIER: Final = ("nobarrier", "barrier=0", "volatile")


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that was looked at.

    Attributes:
        level: `ok`, `note` (to know), `warning` (to look at), `problem` (a promise does not hold, or work is refused).
        about: What it is about, in a word or two.
        what: What was found.
        where: The path or the run.
        next: What to do; empty when nothing has to be done.
        exit: Of a problem: the exit code that a run would end with there.
    """

    level: Level
    about: str
    what: str
    where: str = ""
    next: str = ""
    exit: int = 0


Findings = Iterator[Finding]


def judge(found: Checkup) -> list[Finding]:
    """Every finding, the folder and the machine first, then the runs, then the tools.

    Source:
        DESIGN §4 and §10; issue 3, Build 8.
    """
    survey = found.survey
    parts = (
        _home(survey),
        _volume(survey),
        _folder(survey),
        _clock(found),
        _runs(found),
        _talks(found.talks),
        _tools(found),
    )
    return [finding for part in parts for finding in part] + [_versions(found)]


def exit_code(findings: Sequence[Finding]) -> int:
    """0 without a problem, else the highest exit code of the problems."""
    return max((finding.exit for finding in findings), default=0)


def finding_lines(findings: Sequence[Finding]) -> list[str]:
    """The findings for people: level, subject, what was found, and below it what to do."""
    width = max(len(finding.about) for finding in findings)
    lines = []
    for finding in findings:
        where = f"  [{one_line(finding.where, 300)}]" if finding.where else ""
        lines.append(f"{finding.level.upper():<7}  {finding.about:<{width}}  {one_line(finding.what, 500)}{where}")
        if finding.next:
            lines.append(f"{'':9}{'':{width}}  next: {one_line(finding.next, 500)}")
    return lines


def summary(findings: Sequence[Finding]) -> str:
    """How many of each level there are."""
    counts = {level: sum(finding.level == level for finding in findings) for level in LEVELS}
    said = [count_text(counts[level], level) for level in ("problem", "warning", "note") if counts[level]]
    return ", ".join(said) if said else "nothing to complain of"


# The home and what lies under it.


def _home(survey: Survey) -> Findings:
    where = survey.path
    typed = f"clew unlock --home {shlex.quote(where)} --by NAME --reason TEXT"
    if survey.standing == "own":
        yield Finding("ok", "home", "it is the one that was made here, layout 1", where)
    elif survey.standing == "unmarked":
        yield Finding("note", "home", "this file system has nothing by which a copy of the home would be seen", where)
    elif survey.standing == "missing":
        yield Finding("note", "home", "it has no home.json; the next leg writes it; before that no copy is seen", where)
    elif survey.standing == "foreign":
        yield Finding("note", "home", "it is another program's: clew reads it and writes nothing there", where)
    elif survey.standing == "copy":
        what = "it is a copy: its runs are not resumed, settled or aborted here; new ones may start"
        step = f"make sure that the original did not go on and never does, then: {typed}"
        yield Finding("problem", "home", what, where, step, REFUSED)
    elif survey.standing == "unknown_layout":
        what = f"it has {survey.why}, which this clew does not know"
        yield Finding("problem", "home", what, where, "use the clew that made it, or a newer one", REFUSED)
    elif survey.standing == "unreadable":
        yield Finding("problem", "home", survey.why, where, "give this user access to it", survey.exit)
    elif survey.standing == "corrupt":
        what = f"its home.json is damaged: {survey.why}"
        yield Finding("problem", "home", what, where, f"find out what touched it, then: {typed}", CORRUPT)
    else:
        yield Finding("note", "home", "it lives in memory and ends with its process")


def _volume(survey: Survey) -> Findings:
    volume = survey.volume
    if volume is None:
        return
    where = survey.path
    how = f", mounted {one_line(','.join(volume.options), 200)}" if volume.options else ""
    yield Finding("ok", "disk", f"{volume.kind}{how}", where)
    yield _sync(volume, where)
    if volume.local is False:
        what = f"on {volume.kind} nobody can prove that a dead writer is gone"
        yield Finding("warning", "lock", what, where, _UNPROVED)
    elif volume.local is None:
        what = f"{volume.kind} is no kind of file system that clew knows: a dead writer is not proved gone on it"
        yield Finding("warning", "lock", what, where, _UNPROVED)
    else:
        yield Finding("ok", "lock", f"the kernel's lock on {volume.kind} tells who writes", where)
    yield from _room(volume, where)
    if not volume.writable:
        what = "this user may not write here: runs can be looked at, not run"
        yield Finding("problem", "access", what, where, "give this user write access to it", STORAGE)


def _sync(volume: Volume, where: str) -> Finding:
    """Does a sync mean anything here? What is beyond the kernel cannot be known, and that is said."""
    off = [option for option in volume.options if option in _NO_BARRIER]
    if volume.undone:
        what = f"{', '.join(volume.undone)} is loaded: a sync does nothing, and a crash may lose what was acknowledged"
        return Finding("problem", "sync", what, where, "take it out of LD_PRELOAD", STORAGE)
    if off:
        what = f"{volume.kind} is mounted with {', '.join(off)}: a power cut may lose what was acknowledged"
        return Finding("problem", "sync", what, where, "mount it without that option", STORAGE)
    if volume.kind in _IN_MEMORY:
        what = f"{volume.kind} is memory: all is gone after a power cut or a reboot, the death of a process is survived"
        return Finding("warning", "sync", what, where, "keep the home of real work on a disk")
    if volume.kind == "overlay":
        what = "a container's layer: a sync means what it means on the disk below, and all goes with the container"
        return Finding("warning", "sync", what, where, "keep the home of real work on a volume of its own")
    if volume.local is not True:
        what = f"on {volume.kind} a sync means what the other side makes of it; that cannot be seen from here"
        return Finding("warning", "sync", what, where, "ask whether an fsync reaches a disk there")
    what = f"{volume.kind} waits for the device; whether that (or the host of a virtual one) keeps its word is not seen"
    return Finding("ok", "sync", what, where)


def _room(volume: Volume, where: str) -> Findings:
    free, inodes = volume.free_bytes, volume.free_inodes
    if free is not None:
        told = f"{free // MIB} MiB free of {(volume.total_bytes or 0) // MIB}"
        if free < _NO_ROOM:
            yield Finding("problem", "space", f"{told}: not enough for two appends", where, "free space", STORAGE)
        elif free < _LITTLE_ROOM:
            yield Finding("warning", "space", told, where, "free space before long")
        else:
            yield Finding("ok", "space", told, where)
    if inodes is not None and inodes < _FEW_INODES:
        told = f"room for {count_text(inodes, 'more file')}"
        if inodes < 10:
            yield Finding("problem", "space", told, where, "delete files on that disk", STORAGE)
        else:
            yield Finding("warning", "space", told, where, "delete files on that disk before long")


def _folder(survey: Survey) -> Findings:
    yield from _sizes(survey)
    if not survey.ignored:
        what = "there is no .gitignore in it: journals may end up in a repository"
        yield Finding("note", "folder", what, survey.path, f"echo '*' > {shlex.quote(survey.path)}/.gitignore")
    yield from _each(survey.too_open, "permissions", _too_open)
    yield from _each(survey.denied, "access", _denied)
    yield from _each(survey.links, "links", _link)
    yield from _each(survey.misplaced, "misplaced", _misplaced)
    yield from _each(survey.left_behind, "temp files", _left_behind)
    yield from _each(survey.strange_commands, "inbox", _strange)
    if not survey.whole:
        yield Finding("note", "folder", "it holds too many files to look at all of them; the first were", survey.path)


def _sizes(survey: Survey) -> Findings:
    """How much the journals take, which always stay, and how much the blobs, of which a prune may free some."""
    told = [
        f"{count_text(survey.sizes[name][0], word)}, {size_text(survey.sizes[name][1])}"
        for name, word in (("journals", "journal"), ("blobs", "blob file"))
        if name in survey.sizes
    ]
    if told:
        least = "" if survey.whole else ", and more that was not looked at"
        step = "clew prune --dry-run  says what of it nobody needs" if "blobs" in survey.sizes else ""
        yield Finding("ok", "size", "; ".join(told) + least, survey.path, step)


def _too_open(one: dict[str, Any]) -> Finding:
    what = f"others may open it (mode {one['mode']}); arguments and answers stand in it"
    return Finding("warning", "permissions", what, one["path"], f"chmod go= {shlex.quote(one['path'])}")


def _denied(one: dict[str, Any]) -> Finding:
    step = "look as the user whose runs these are, or give this one access"
    return Finding("problem", "access", "this user cannot look into it", one["path"], step, STORAGE)


def _link(one: dict[str, Any]) -> Finding:
    what = "it is a link, which no writer follows"
    return Finding("problem", "links", what, one["path"], "put the real file or folder in its place", REFUSED)


def _misplaced(one: dict[str, Any]) -> Finding:
    kind = {"file": "a file", "folder": "a folder"}.get(one["kind"], "a pipe, a socket or a device")
    step = "find out who put it there, and take it away"
    if not one["wanted"]:
        return Finding("warning", "misplaced", f"it is {kind}, which clew does not make", one["path"], step)
    what = f"it is {kind}, and a {one['wanted']} belongs there: what needs that is refused"
    return Finding("problem", "misplaced", what, one["path"], step, STORAGE)


def _left_behind(one: dict[str, Any]) -> Finding:
    return Finding("note", "temp files", "a process died while it wrote it; nothing names it", one["path"], "delete it")


def _strange(one: dict[str, Any]) -> Finding:
    return Finding("warning", "inbox", "it holds no command and is not read", one["path"], "look at it, then delete it")


# The clock.


def _clock(found: Checkup) -> Findings:
    if not _2025_MS <= found.now_ms < _2100_MS:
        what = "the clock shows a year that cannot be: waiting times of probes and idempotency windows count from it"
        yield Finding("problem", "clock", what, "", "set the clock", STORAGE)
        return
    newest = parse_ms(found.newest) if found.newest else None
    behind_ms = 0 if newest is None else newest - found.now_ms
    if behind_ms > _SKEW_MS:
        what = f"it is {behind_ms / 1000:.0f} s behind the newest record: it was set back, or another machine's differs"
        yield Finding("warning", "clock", what, found.newest_run, "set the clock; probes wait until it has caught up")
    elif not found.monotonic:
        yield Finding("problem", "clock", "the clock that measures durations goes backwards", "", "reboot", STORAGE)
    else:
        yield Finding("ok", "clock", "it is ahead of every record, and durations are measured forwards")


# The runs and their tools.


def _runs(found: Checkup) -> Findings:
    believed = f"; of {found.believed} that have ended only the head was read" if found.believed else ""
    step = "clew verify  reads every journal to its end" if found.believed else ""
    alive = f", {found.alive} of them under way" if found.alive else ""
    if all(one["run"] for one in found.unreadable.first):
        yield Finding("ok", "runs", f"{count_text(found.runs, 'run')}{alive}{believed}", "", step)
    yield from _each(found.unreadable, "journal", _unreadable, found.worst_exit)
    yield from _each(found.torn, "journal", _torn)
    yield from _each(found.gone, "leg", _gone)
    yield from _each(found.stopped, "leg", _stopped)
    yield from _each(found.elsewhere, "leg", _elsewhere)
    yield from _each(found.uncertain, "effect", _uncertain)
    yield from _each(found.unnamed, "torn piece", _unnamed)
    yield from _each(found.waiting, "inbox", _waiting)


def _unreadable(one: dict[str, Any]) -> Finding:
    what = f"{one['message']} [{one['code']}]"
    # No run: that is all of them, which cannot even be listed.
    step = f"clew verify {one['run']}" if one["run"] else one["next"]
    return Finding("problem", "journal", what, one["run"], step, one["exit"])


def _torn(one: dict[str, Any]) -> Finding:
    what = "its end is torn: the last append was never acknowledged; the next leg keeps those bytes and cuts them"
    return Finding("note", "journal", what, one["run"])


def _gone(one: dict[str, Any]) -> Finding:
    what = f"it was left in the middle, and process {one['pid']} on {one['host']} runs it no more"
    return Finding("warning", "leg", what, one["run"], f"clew resume {one['run']}")


def _stopped(one: dict[str, Any]) -> Finding:
    what = f"process {one['pid']} has it, and is stopped"
    return Finding("warning", "leg", what, one["run"], f"let it go on (kill -CONT {one['pid']}) or end it")


def _elsewhere(one: dict[str, Any]) -> Finding:
    what = f"process {one['pid']} on {one['host']} has it; whether that still lives cannot be told from here"
    step = f"look there; once it is gone: clew unlock {one['run']} --nonce {one['nonce']} --by … --reason …"
    return Finding("warning", "leg", what, one["run"], step)


def _uncertain(one: dict[str, Any]) -> Finding:
    what = f"nobody can vouch for {count_text(one['effects'], 'effect')}, the first {one['tool']} in step {one['step']}"
    return Finding("warning", "effect", what, one["run"], f"clew show {one['run']} --effects")


def _unnamed(one: dict[str, Any]) -> Finding:
    what = f"{one['name']} was cut from a torn end, and no record names it: a death came in between"
    return Finding("note", "torn piece", what, one["run"], "keep it; nobody was told that these bytes are kept")


def _waiting(one: dict[str, Any]) -> Finding:
    what = f"command {one['id']} ({one['type']}) waits, and nobody runs the run"
    step = f"clew resume {one['run']}  takes it in; or do it again: without a writer it is done at once"
    return Finding("warning", "inbox", what, one["run"], step)


def _talks(talks: Talks) -> Findings:
    if talks.sessions:
        orphans, many = count_text(talks.orphan_calls, "call"), talks.orphaned.count > len(talks.orphaned.first)
        told = f"; {orphans} without a result in {talks.orphaned.count} of them" if talks.orphan_calls else ""
        step = "clew session ls --full  counts them for each" if many else ""
        yield Finding("ok", "sessions", f"{count_text(talks.sessions, 'session')}{told}", "", step)
    yield from _each(talks.unreadable, "session", _sick, talks.worst_exit)
    yield from _each(talks.orphaned, "session", _orphaned)


def _sick(one: dict[str, Any]) -> Finding:
    what = f"{one['message']} [{one['code']}]"
    step = f"clew session verify {one['session']}" if one["session"] else "give this user access to them"
    return Finding("problem", "session", what, one["session"], step, one["exit"])


def _orphaned(one: dict[str, Any]) -> Finding:
    what = (
        f"{count_text(one['calls'], 'call')} without a result, the first {one['tool']} at line {one['line']}: whether "
        "it took effect is unknown; a model is told so, the file stays"
    )
    return Finding("note", "session", what, one["session"], f"clew session verify {one['session']}")


def _tools(found: Checkup) -> Findings:
    yield from _each(found.undeclared, "tool", _undeclared)


def _undeclared(one: dict[str, Any]) -> Finding:
    what = f"tool {one['tool']!r} says nothing of its effect: it counts as external and is never repeated"
    return Finding("note", "tool", what, one["run"], "declare it: @clew.tool(effect=…)")


def _versions(found: Checkup) -> Finding:
    return Finding("ok", "versions", ", ".join(f"{name} {version}" for name, version in found.versions.items()))


def _each(some: Some, about: str, say: Callable[[dict[str, Any]], Finding], worst_exit: int = 0) -> Findings:
    """One finding for each example, and one for all that are only counted."""
    findings = [say(one) for one in some.first]
    yield from findings
    more = some.count - len(findings)
    if more:
        last = findings[-1]
        yield Finding(last.level, about, f"… and {more} more like these", exit=max(last.exit, worst_exit))
