"""Whether a v1, v2 or v3 session can become v4a, and whether it has. How its lines are made anew is in `converting`."""

from collections.abc import Iterator

from clew.core.session.converting import Conversion, Standings, as_migration, source_version, unsupported
from clew.core.session.lines import BadLine, damaged, dump, shown
from clew.core.session.state import SessionState
from clew.core.session.values import ReadAt, Said, View
from clew.core.session.viewing import remarks
from clew.errors import ClewError, Refused


def migrate(state: SessionState, read: ReadAt, *, sha256: str, backup_file: str) -> Iterator[bytes]:
    """Write a session anew as v4a, a line at a time, each with its LF.

    Ids are kept. Members are copied as the very bytes that stood there, so that no number is rounded and no escape is
    changed. What has no entry in v4a becomes a `custom` entry `clew.*`, a fact, a move of the lane or a usage record
    that keeps its id. Whoever writes the lines must then ask `check_migrated`.

    Args:
        state: The source, wholly read.
        read: Gives bytes of the source.
        sha256: Of all bytes of the source, 64 hex digits.
        backup_file: The name of their copy.

    Raises:
        Corrupt: `session_migration_invalid` when a line, a time or a reference is bad, or the end is torn.
        Refused: `session_migration_unsupported` when something has no place in v4a; facts name it and its line.

    Source:
        reference/sessions.md §9; DESIGN §8; contract #192, #194.
    """
    source_version(state)
    _check(state)
    return Conversion(state, read, sha256, backup_file).lines()


def _check(state: SessionState) -> None:
    """Refuse what was only remarked while it was read."""
    if state.ending == "torn":
        raise _torn(state)
    for remark in remarks(state):
        match remark.code:
            case "unknown_type":
                raise unsupported(remark.text, state, remark, type=remark.ids[0][:80])
            case "kept_range_lost" | "target_missing":
                bad = BadLine(remark.text, reason=remark.code, ids=remark.ids)
                raise as_migration(damaged(bad, remark.line, remark.byte, session_id=state.id))
            case _:
                pass
    if state.remarks_left_out:
        raise unsupported("more is odd about it than can be listed", state)


def _torn(state: SessionState) -> ClewError:
    line = (state.tree.lines[-1] if state.entries else 1) + 1
    why = f"its last {state.torn_bytes} bytes are a part of a line"
    return as_migration(damaged(BadLine(why, reason="torn"), line, state.size, session_id=state.id))


def differences(state: SessionState, before: View, after: View) -> tuple[str, ...]:
    """What two views do not say alike: `messages`, `level`, `model`, `tools`, `title`, `labels`, `totals`, `leaf`.

    A reference to an entry that left the tree counts as one to the entry that stands for it. The time and the kind of
    every message count, of a branch summary all but its `fromId`.

    Args:
        state: The source of the migration.
        before: Its view.
        after: The view of what was written.
    """
    standings = Standings(state)
    labels: dict[str, str] = {}
    for target, label in before.labels.items():
        if (name := standings.name(target)) is not None:
            labels[name] = label
    leaf = None if before.leaf is None else standings.name(before.leaf)
    same = {
        "messages": list(map(_sayable, before.messages)) == list(map(_sayable, after.messages)),
        "level": before.level == after.level,
        "model": before.model == after.model,
        "tools": before.tools == after.tools,
        "title": before.title == after.title,
        "labels": labels == after.labels,
        "totals": before.totals == after.totals,
        "leaf": leaf == after.leaf or leaf is None,
    }
    return tuple(name for name, equal in same.items() if not equal)


def _sayable(said: Said) -> bytes:
    skipped = ("fromId",) if said.role == "branchSummary" else ()
    return dump({name: value for name, value in said.message.items() if name not in skipped})


def check_migrated(state: SessionState, before: View, after: View) -> None:
    """Return when a session that was written anew shows what its source shows; else it must not be published.

    Raises:
        Refused: `session_migration_failed`; `facts["differs"]` names what is not the same.

    Source:
        reference/sessions.md §9, item 3.
    """
    differs = differences(state, before, after)
    if differs:
        raise Refused(
            f"session {shown(state.id)} would not show the same after its migration: {', '.join(differs)}",
            code="session_migration_failed",
            next="Nothing was changed. The session can still be shown; please report this with its first line.",
            session=state.id,
            differs=list(differs),
        )
