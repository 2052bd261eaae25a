"""What is known of a whole workspace at one moment, and what two such moments differ in. No file is looked at here."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from clew.core.checkpoint import ABSENT, BadManifest, Manifest, PathState, is_below, manifest_as_json, read_manifest


class NotCovered(msgspec.Struct, frozen=True):
    """A path that nothing is known of, nor of anything below it, and why.

    Attributes:
        path: Below the workspace.
        why: `ignored`, `too_large` (one file), `over_limit` (all files together), `unreadable`, `changing` (it did not
            stand still while it was read), `no_file` (a pipe, socket or device), `kept_out` (`.git`, `.clew`, a home).
        rule: Which ignore rule, as `FILE: PATTERN`; empty where none did it.
    """

    path: str
    why: str
    rule: str = ""


class Cover(msgspec.Struct, frozen=True):
    """How all of a workspace stands: every path that is covered, and every one that is not."""

    manifest: Manifest
    not_covered: tuple[NotCovered, ...] = ()


class Touched(msgspec.Struct, frozen=True):
    """What two covers of one workspace differ in, as far as both cover it: the manifests of a checkpoint."""

    paths: dict[str, PathState]
    after: dict[str, PathState]


def lost(before: Cover, after: Cover) -> list[str]:
    """Paths that were covered and are not any more, by a new rule or because they grew: each can still be looked at."""
    unknown = frozenset(each.path for each in after.not_covered)
    return [path for path in sorted(before.manifest) if _is_within(path, unknown)]


def touched(before: Cover, after: Cover, alone: Mapping[str, PathState] = {}) -> Touched:
    """Every path that is not as it was. A path that one of the two does not cover is left out: nothing is known of it.

    Args:
        before: How all of it stood.
        after: How all of it stands.
        alone: How paths of `lost` stand, as far as that could be seen.

    Source:
        DESIGN §7: "what they changed is listed and restorable up to a stated size, beyond it an honest not covered".
    """
    unknown = frozenset(each.path for each in (*before.not_covered, *after.not_covered))
    now = {**after.manifest, **alone}
    found = [
        path
        for path in sorted({*before.manifest, *now})
        if before.manifest.get(path, ABSENT) != now.get(path, ABSENT)
        and (path in alone or not _is_within(path, unknown))
    ]
    return Touched(
        {path: before.manifest.get(path, ABSENT) for path in found}, {path: now.get(path, ABSENT) for path in found}
    )


def _is_within(path: str, unknown: frozenset[str]) -> bool:
    while path not in unknown:
        path, slash, _ = path.rpartition("/")
        if not slash:
            return False
    return True


MOST_TOLD = 100


def not_covered_as_json(not_covered: Iterable[NotCovered]) -> list[dict[str, Any]]:
    """The member `notCovered` of a checkpoint record.

    What one rule ignores is told once, as `{"pattern", "why", "count"}`; all else by path, as `{"path", "why"}`, at
    most 100 of one reason, and how many more as `{"why", "count"}`.
    """
    told: list[dict[str, Any]] = []
    rules: dict[str, int] = {}
    counted: dict[str, int] = {}
    for each in not_covered:
        if each.rule:
            rules[each.rule] = rules.get(each.rule, 0) + 1
            continue
        counted[each.why] = counted.get(each.why, 0) + 1
        if counted[each.why] <= MOST_TOLD:
            told.append({"path": each.path, "why": each.why})
    told += [{"pattern": rule, "why": "ignored", "count": count} for rule, count in rules.items()]
    return told + [{"why": why, "count": all_ - MOST_TOLD} for why, all_ in counted.items() if all_ > MOST_TOLD]


def encode_cover(cover: Cover) -> bytes:
    """A cover as the bytes of a blob: JSON, names that are not UTF-8 with escaped surrogates."""
    told = {
        "version": 1,
        "paths": manifest_as_json(cover.manifest),
        "notCovered": msgspec.to_builtins(cover.not_covered),
    }
    return json.dumps(told, separators=(",", ":")).encode()


def decode_cover(data: bytes) -> Cover:
    """A cover from the bytes of a blob.

    Raises:
        BadManifest: it is none.
    """
    try:
        told = json.loads(data)
        known = type(told) is dict and told.keys() == {"version", "paths", "notCovered"} and told["version"] == 1
        not_covered = msgspec.convert(told["notCovered"], tuple[NotCovered, ...]) if known else ()
    except (ValueError, RecursionError) as fault:
        raise BadManifest(f"it cannot be read: {fault}") from None
    if not known:
        raise BadManifest("it is no cover of version 1")
    wrong = next((each.path for each in not_covered if not is_below(each.path)), None)
    if wrong is not None:
        raise BadManifest(f"{wrong!r} is no path below the workspace")
    return Cover(read_manifest(told["paths"]), not_covered)
