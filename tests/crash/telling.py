"""Stores that say what they are about to do and what they have promised; for processes that are struck from outside."""

import contextlib
import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import clew
from clew.core.keys import Claim
from clew.core.records import Batch, Head
from clew.stores.base import Command, CommandAnswer
from clew.stores.blobs import FileBlobStore
from clew.stores.jsonl import FileRunStore
from clew.stores.keys import FileKeyIndex
from tests.crash.damages import Tear

Strike = Callable[[], AbstractContextManager[object]]
Fact = list[Any]
"""What a store can promise: its first item is the kind (`append`, `head`, `blob`, `claim`, `command`, `answer`, …)."""


def _whole(batch: Batch, at: int) -> None:
    """Nothing is torn."""


class Tell:
    """Lines on a pipe, each out before the next system call: `about` to do a thing, or it is `kept`.

    A work does within `strike` what is to be struck from inside the process.
    """

    def __init__(self, fd: int, strike: Strike = nullcontext) -> None:
        self._fd = fd
        self.strike = strike

    def about(self, *fact: Any) -> None:
        """It may be found from now on."""
        self._say("about", fact)

    def kept(self, *fact: Any) -> None:
        """It was acknowledged, and may never be lost."""
        self._say("kept", fact)

    def _say(self, word: str, fact: tuple[Any, ...]) -> None:
        # Whoever strikes every write strikes this one too, which is no part of what is tried.
        for _ in range(3):
            with contextlib.suppress(OSError):
                os.write(self._fd, json.dumps([word, *fact]).encode() + b"\n")
                return


class TellingWriter:
    """A writer that tells; everything else is the writer's."""

    def __init__(self, inner: Any, tell: Tell, tear: Tear) -> None:
        self._inner = inner
        self._tell = tell
        self._tear = tear

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def append(self, batch: Batch, *, starts_effect: bool = False) -> int:
        self._tell.about("append", batch.run_id, batch.first, batch.last, [record.chain for record in batch.records])
        left = self._tear(batch, self._inner.size_bytes)
        if left is not None:
            die_writing(Path(self._inner._file.path), left)
        at = int(self._inner.append(batch, starts_effect=starts_effect))
        self._tell.kept("append", batch.run_id, batch.last, batch.chain)
        return at

    def publish_head(self, head: Head) -> None:
        self._inner.publish_head(head)
        self._tell.kept("head", self._inner.run_id, head.sequence)


def die_writing(path: Path, data: bytes) -> None:
    """The death of a process in the middle of a write: some of it is in the file, and nobody is told of anything."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(fd, data)
    os._exit(9)


class TellingStore(FileRunStore):
    """`FileRunStore`, told of. `tear` may say how much of an append a death leaves."""

    tell: Tell
    tear: Tear = staticmethod(_whole)

    def create(self, run_id: str, batch: Batch, *, wait_s: float = 0.0) -> Any:
        self.tell.about("append", run_id, batch.first, batch.last, [record.chain for record in batch.records])
        writer = super().create(run_id, batch, wait_s=wait_s)
        self.tell.kept("append", run_id, batch.last, batch.chain)
        return TellingWriter(writer, self.tell, self.tear)

    def open(self, run_id: str, **how: Any) -> Any:
        return TellingWriter(super().open(run_id, **how), self.tell, self.tear)

    def post(self, command: Command) -> None:
        super().post(command)
        self.tell.kept("command", command.run_id, command.control_id)

    def answer(self, run_id: str, answer: CommandAnswer) -> None:
        super().answer(run_id, answer)
        self.tell.kept("answer", run_id, answer.control_id, answer.status)


class TellingBlobs(FileBlobStore):
    """`FileBlobStore`, told of."""

    tell: Tell

    def put(self, data: bytes) -> str:
        digest = super().put(data)
        self.tell.kept("blob", digest)
        return digest


class TellingKeys(FileKeyIndex):
    """`FileKeyIndex`, told of."""

    tell: Tell

    def take(self, number: int, claim: Claim) -> bool:
        taken = super().take(number, claim)
        if taken:
            self.tell.kept("claim", claim.sha256, claim.tool, number)
        return taken


def home_of(root: Path, tell: Tell, tear: Tear = _whole) -> clew.Home:
    """A home in files whose stores tell, with the standing order to take over from the dead."""
    store, blobs, keys = TellingStore(root), TellingBlobs(root), TellingKeys(root)
    store.tell = blobs.tell = keys.tell = tell
    store.tear = tear
    return clew.Home(root, takeover="proven", store=store, blobs=blobs, keys=keys)
