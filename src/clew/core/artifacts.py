"""Artifacts: content that a run keeps under a name, as its journal tells it. Where the bytes lie is not known here."""

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeGuard

import msgspec

from clew.core.calls import Illegal
from clew.core.ids import is_digest
from clew.core.records import Record
from clew.core.redact import Redactor
from clew.core.state import ArtifactState, RunState
from clew.errors import UsageError

Event = dict[str, Any]

NAME_BYTES: Final = 255
PREVIEW_CHARS: Final = 200
ROWS_AT_CLOSE: Final = 1000
"""So many rows a `pause` or `finish` carries at most; the snapshot has all, and the metrics count them."""
TOOL: Final = "artifact.create"
"""The member `tool` of an artifact that the agent itself made; its contract knows only those of tools."""
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,62}/[a-z0-9][a-z0-9!#$&^_.+-]{0,62}(; ?[a-z-]+=[\w.-]+)?")
_LOOK_BACK: Final = 64 * 1024


def is_artifact_name(name: object) -> TypeGuard[str]:
    """May an artifact be called so? Printable, at most 255 bytes, and no path."""
    if type(name) is not str or not name.isprintable() or name != name.strip() or name in ("", ".", ".."):
        return False
    return not {"/", "\\"} & set(name) and len(name.encode("utf-8", "surrogatepass")) <= NAME_BYTES


def check_artifact_name(name: object) -> str:
    """Return `name` when an artifact may be called so.

    Raises:
        UsageError: `invalid_artifact_name`.
    """
    if not is_artifact_name(name):
        raise UsageError(
            f"an artifact cannot be called {ascii(name)[:200]}",
            code="invalid_artifact_name",
            next=f"Give it a name such as 'report.pdf', printable, no path, of at most {NAME_BYTES} bytes.",
        )
    return name


def check_media_type(media_type: object) -> str:
    """Return `media_type` when it is one: `type/subtype`, in lower case.

    Raises:
        UsageError: `invalid_media_type`.
    """
    if type(media_type) is not str or not _MEDIA_TYPE.fullmatch(media_type):
        raise UsageError(
            f"{ascii(media_type)[:200]} is no media type",
            code="invalid_media_type",
            next="Give one such as 'text/plain', 'application/json' or 'image/png', or leave it out.",
        )
    return media_type


# What is recorded.


def stored(name: str, sha256: str, size_bytes: int, media_type: str, preview: str | None) -> Event:
    """The event of an artifact whose content is a durable blob."""
    event = _created(name, "stored", size_bytes, media_type, "none")
    event["sha256"] = sha256
    if preview is not None:
        event["preview"] = preview
    return event


def blocked(name: str, size_bytes: int, media_type: str) -> Event:
    """The event of an artifact that was not kept, for a secret stands in it; its digest could betray a short one."""
    return _created(name, "blocked", size_bytes, media_type, "blocked-secret")


def _created(name: str, status: str, size_bytes: int, media_type: str, redaction: str) -> Event:
    return {
        "type": "artifact_created",
        "artifactId": name,
        "status": status,
        "sizeBytes": size_bytes,
        "mediaType": media_type,
        "redaction": redaction,
        "tool": TOOL,
    }


def take_artifact(state: RunState, event: Event, record: Record, position: int) -> None:
    """An artifact was stored, once under its name, or kept out because of a secret.

    Source:
        contract §2.4, §2.8; promise 1: an id stands for one content.
    """
    found = _read(event, record.timestamp)
    if state.state != "running":
        raise Illegal(f"artifact {found.name!r} comes while the operation is {state.state}")
    earlier = state.artifacts.get(found.name)
    if earlier is not None and (earlier.status, found.status) != ("blocked", "stored"):
        raise Illegal(f"artifact {found.name!r} is {earlier.status} already")
    state.artifacts = {**state.artifacts, found.name: found}
    kept, out, total = state.metrics.talk.artifacts or (0, 0, 0)
    is_kept = found.status == "stored"
    counted = (kept + is_kept, out + (not is_kept), total + (found.size_bytes if is_kept else 0))
    state.metrics.talk = msgspec.structs.replace(state.metrics.talk, artifacts=counted)


def _read(event: Event, at: str) -> ArtifactState:
    """The artifact of an event; nothing is defaulted."""
    name, size = event.get("artifactId"), event.get("sizeBytes")
    if not is_artifact_name(name):
        raise Illegal(f"artifact_created has the artifactId {ascii(name)[:200]}")
    status = event.get("status")
    known = (status, event.get("redaction")) in (("stored", "none"), ("blocked", "blocked-secret"))
    if not known or type(size) is not int or size < 0:
        raise Illegal(f"artifact {name!r} says neither whether it is stored nor how large it is")
    digest, preview = event.get("sha256"), event.get("preview")
    media_type, tool = event.get("mediaType"), event.get("tool")
    if type(media_type) is not str or not _MEDIA_TYPE.fullmatch(media_type) or type(tool) is not str:
        raise Illegal(f"artifact {name!r} has no media type, or nobody made it")
    if status == "blocked":
        if digest is not None or preview is not None:
            raise Illegal(f"artifact {name!r} was kept out, and something of it stands in the record")
        return ArtifactState(name, "blocked", size, media_type, at)
    if type(digest) is not str or not is_digest(digest):
        raise Illegal(f"artifact {name!r} is stored under no digest")
    if preview is not None and (type(preview) is not str or len(preview) > PREVIEW_CHARS):
        raise Illegal(f"artifact {name!r} has a preview that is none")
    return ArtifactState(name, "stored", size, media_type, at, digest, preview)


def artifact_row(found: ArtifactState) -> dict[str, Any]:
    """One artifact for the snapshot and for lists: contract §2.8, with its name and, of a text, its beginning."""
    row: dict[str, Any] = {
        "artifactId": found.name,
        "name": found.name,
        "status": found.status,
        "sizeBytes": found.size_bytes,
        "sha256": found.sha256,
        "mediaType": found.media_type,
        "createdAt": found.at,
        "retention": "run",
        "redaction": "none" if found.status == "stored" else "blocked-secret",
        "preview": found.preview,
    }
    return {name: value for name, value in row.items() if value is not None}


def artifact_rows(state: RunState) -> list[dict[str, Any]]:
    """All artifacts of a run, in the order in which their names first came."""
    return [artifact_row(found) for found in state.artifacts.values()]


def rows_at_close(state: RunState) -> list[dict[str, Any]]:
    """What a `pause` or `finish` carries of them: the members of contract §2.8, no more than fit into any append."""
    rows = artifact_rows(state)[:ROWS_AT_CLOSE]
    return [{name: value for name, value in row.items() if name not in ("name", "preview")} for row in rows]


# Content, piece by piece.


class SecretFound(Exception):
    """Raised amid the pieces of a content: a secret stands in it, so nothing of it may be kept."""


def watched(pieces: Iterable[bytes], redactor: Redactor) -> Iterator[bytes]:
    """The same pieces, each looked through before it is handed on.

    Configured secrets are found in any bytes, known shapes in what is text as far as can be seen (no NUL). One that
    stands across pieces is found where it is not longer than 64 KiB; one that is encoded or compressed is not.

    Raises:
        SecretFound: a secret stands in them.
    """
    tail = b""
    for piece in pieces:
        window = tail + piece
        if holds_secret(window, redactor):
            raise SecretFound
        yield piece
        tail = window[-_LOOK_BACK:]


def holds_secret(data: bytes, redactor: Redactor) -> bool:
    """Does a secret stand in these bytes?"""
    if any(value.encode("utf-8", "surrogatepass") in data for value in redactor.values):
        return True
    if b"\0" in data:
        return False
    text = data.decode("utf-8", "replace")
    return redactor.text(text) is not text


def preview_of(beginning: bytes) -> str | None:
    """The first characters of a content, of which this is the beginning, if they are text; None otherwise."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(beginning[: 4 * PREVIEW_CHARS])
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text[:PREVIEW_CHARS]
