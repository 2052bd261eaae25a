"""Artifacts that an agent keeps: content a durable blob first, then the record. What they mean belongs to core."""

import asyncio
import hashlib
import mimetypes
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import msgspec

from clew.core.artifacts import (
    Event,
    SecretFound,
    blocked,
    check_artifact_name,
    check_media_type,
    preview_of,
    stored,
    watched,
)
from clew.core.state import ArtifactState
from clew.errors import Refused, Stop, Storage, UsageError
from clew.runtime.gate import Gate

Data = bytes | bytearray | memoryview | str | Path | IO[bytes]
"""What an artifact may be made of: bytes, text (kept as UTF-8), a file by its path, or an open binary stream."""

_PIECE: Final = 1 << 20
_HEAD: Final = 1 << 10
# The tables of this Python alone, for those of the machine differ from one to the next.
_TYPES: Final = mimetypes.MimeTypes()


class Artifact(msgspec.Struct, frozen=True):
    """Content that a run keeps under a name. `home.artifact(run, name)` reads it back."""

    name: str
    sha256: str
    size_bytes: int
    media_type: str


class Shelf:
    """Where one run puts its artifacts, one after another. Lives as long as the face of its leg."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.turn = threading.Lock()
        self.turn_on_loop = asyncio.Lock()

    def events(self, name: str, data: Data, media_type: str | None) -> list[Event]:
        """What is to be recorded of an artifact, whose content is durable then; nothing when it is recorded already.

        Blocking: the content is read, and written piece by piece.

        Raises:
            UsageError: `invalid_artifact_name`, `invalid_media_type`, `invalid_artifact_data`.
            Refused: `artifact_conflict`. Storage: it cannot be kept, and nothing is recorded.
            Stop: the gate has closed.
        """
        gate = self._gate
        gate.check_going()
        if gate.redactor.text(check_artifact_name(name)) is not name:
            raise _blocked(name, "in its name")
        kind = _media_type(name, data) if media_type is None else check_media_type(media_type)
        content = _Content(data, Path(gate.workspace.root))
        earlier = gate.journal.state.artifacts.get(name)
        try:
            if earlier is not None and earlier.status == "stored":
                return self._again(earlier, content)
            return self._first(name, content, kind, is_blocked=earlier is not None)
        except Storage as fault:
            fault.message = f"artifact {name!r} cannot be kept, and nothing of it is recorded: {fault.message}"
            fault.args, fault.facts["artifact"] = (fault.message,), name
            raise

    def tried(self, name: str, data: Data, media_type: str | None) -> tuple[list[Event], BaseException | None]:
        """As `events`; what went wrong as a value, for it concerns this artifact alone and not the journal."""
        try:
            return self.events(name, data, media_type), None
        except Stop:
            raise
        except BaseException as fault:  # noqa: BLE001  # raised by the caller, outside of what the journal is judged by
            return [], fault

    def _first(self, name: str, content: "_Content", kind: str, *, is_blocked: bool) -> list[Event]:
        try:
            kept = self._gate.blobs.keep(watched(content, self._gate.redactor))
        except SecretFound:
            return [] if is_blocked else [blocked(name, content.size_to_end(), kind)]
        return [stored(name, kept.sha256, kept.size_bytes, kind, preview_of(content.head))]

    def _again(self, earlier: ArtifactState, content: "_Content") -> list[Event]:
        """A replay comes to the same place: the same content is kept already, another one is not this artifact."""
        found = hashlib.sha256()
        for piece in content:
            found.update(piece)
        if found.hexdigest() != earlier.sha256:
            raise _conflict(earlier, found.hexdigest())
        if content.again and not self._gate.blobs.has(found.hexdigest()):
            # It was lost, and here it is.
            self._gate.blobs.keep(content)
        return []

    def told(self, name: str) -> Artifact:
        """The artifact as it is recorded now.

        Raises:
            Refused: `artifact_blocked`.
        """
        found = self._gate.journal.state.artifacts[name]
        if found.sha256 is None:
            raise _blocked(name, "in it")
        return Artifact(name, found.sha256, found.size_bytes, found.media_type)


class _Content:
    """Bytes to be kept, piece by piece; what has passed is counted, and its beginning is known.

    `again`: they can be had once more.
    """

    def __init__(self, data: Data, folder: Path) -> None:
        self._data = data
        self._folder = folder
        self._left: Iterator[bytes] = iter(())
        self.again = isinstance(data, bytes | bytearray | memoryview | str | Path)
        self.head = b""
        self.size_bytes = 0
        if not self.again and not callable(getattr(data, "read", None)):
            raise _no_data(data)

    def __iter__(self) -> Iterator[bytes]:
        self.head, self.size_bytes = b"", 0
        self._left = self._pieces()
        for piece in self._left:
            self.size_bytes += len(piece)
            if len(self.head) < _HEAD:
                self.head += piece[:_HEAD]
            yield piece

    def size_to_end(self) -> int:
        """How many bytes there are, those that nobody took included."""
        return self.size_bytes + sum(len(piece) for piece in self._left)

    def _pieces(self) -> Iterator[bytes]:
        data = self._data
        if isinstance(data, Path):
            return _of_file(self._folder / data)
        if isinstance(data, str):
            return _of_bytes(_encoded(data))
        if isinstance(data, bytes | bytearray | memoryview):
            return _of_bytes(bytes(data))
        return _of_stream(data)


def _of_bytes(data: bytes) -> Iterator[bytes]:
    return (data[at : at + _PIECE] for at in range(0, len(data), _PIECE))


def _of_file(path: Path) -> Iterator[bytes]:
    try:
        file = path.open("rb")
    except OSError as fault:
        raise UsageError(
            f"the content of an artifact cannot be read: {fault}",
            code="invalid_artifact_data",
            next="Give the path of a file that this user may read.",
            path=str(path),
        ) from fault
    with file:
        yield from _of_stream(file)


def _of_stream(stream: IO[bytes]) -> Iterator[bytes]:
    while piece := stream.read(_PIECE):
        if not isinstance(piece, bytes):
            raise _no_data(stream)
        yield piece


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as fault:
        raise UsageError(
            f"the text of an artifact cannot be UTF-8: {fault}",
            code="invalid_artifact_data",
            next="Give it as bytes, encoded as it is meant.",
        ) from None


def _media_type(name: str, data: Data) -> str:
    """By the name's ending; a text without one is text, and anything else bytes."""
    known, packed = _TYPES.guess_type(name)
    if known is not None and packed is None:
        return known
    return "text/plain" if isinstance(data, str) else "application/octet-stream"


def _no_data(data: object) -> UsageError:
    return UsageError(
        f"an artifact cannot be made of a {type(data).__name__}",
        code="invalid_artifact_data",
        next="Give bytes, a str, the pathlib.Path of a file, or a stream opened in binary mode.",
    )


def _conflict(earlier: ArtifactState, digest: str) -> Refused:
    return Refused(
        f"artifact {earlier.name!r} of this run is kept already, with other content",
        code="artifact_conflict",
        next="Give another content another name; in one run a name stands for one content.",
        artifact=earlier.name,
        recorded=earlier.sha256,
        given=digest,
    )


def _blocked(name: str, where: str) -> Refused:
    # A name with a secret in it is not said again.
    told = f"artifact {name!r}" if where == "in it" else "an artifact"
    return Refused(
        f"{told} is not kept: there is a secret {where}",
        code="artifact_blocked",
        next="Take the secret out and give it again, or keep it outside of the run.",
    )
