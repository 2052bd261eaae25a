"""Content that runs left behind, as it is read again: artifacts by their names, and what became of what is missing."""

from collections.abc import Iterator
from typing import Any

import msgspec

from clew.core.artifacts import artifact_row, is_artifact_name
from clew.core.state import ArtifactState, RunState
from clew.errors import ClewError, NotFound, Refused
from clew.stores.base import BlobStore, Upkeep


class KeptArtifact(msgspec.Struct, frozen=True):
    """One artifact of a run; nothing of its content is in memory before it is read.

    Attributes:
        run_id: The run.
        row: What is recorded of it, as in the snapshot.
    """

    run_id: str
    row: dict[str, Any]
    _blobs: BlobStore
    _upkeep: Upkeep | None

    @property
    def name(self) -> str:
        """What it is called."""
        return str(self.row["name"])

    def read(self) -> bytes:
        """The content. `NotFound` (`blob_missing`, `blob_pruned`), `Corrupt` (`blob_corrupt`)."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """The content, piece by piece. That it is corrupt may be said behind the last piece: keep none before."""
        digest = str(self.row["sha256"])
        try:
            yield from self._blobs.pieces(digest)
        except NotFound as fault:
            raise why_missing(self._upkeep, self.run_id, digest, fault) from None


def kept_artifact(blobs: BlobStore, upkeep: Upkeep | None, state: RunState, name: str) -> KeptArtifact:
    """An artifact by its name.

    Raises:
        NotFound: `unknown_artifact`. Refused: `artifact_blocked`.
    """
    found = state.artifacts.get(name)
    if found is None:
        raise NotFound(
            f"run {state.run_id!r} has no artifact {name!r}"
            if is_artifact_name(name)
            else f"run {state.run_id!r} has no artifact of that name",
            code="unknown_artifact",
            next=f"List them with `clew show {state.run_id} --artifacts`.",
            run=state.run_id,
            artifact=name,
        )
    if found.sha256 is None:
        raise _was_blocked(state.run_id, found)
    return KeptArtifact(state.run_id, artifact_row(found), blobs, upkeep)


def why_missing(upkeep: Upkeep | None, run_id: str, sha256: str, fault: NotFound) -> ClewError:
    """The error of content that is not there: pruned, if it is recorded so for this run, else `fault` as it is."""
    at = None if upkeep is None else upkeep.pruned(run_id).get(sha256)
    if at is None:
        return fault
    return NotFound(
        f"this content of run {run_id!r} was pruned on {at}",
        code="blob_pruned",
        next="Bring it back from a copy of the home, if one is needed; the journal still says all that happened.",
        run=run_id,
        sha256=sha256,
        at=at,
    )


def _was_blocked(run_id: str, found: ArtifactState) -> Refused:
    return Refused(
        f"artifact {found.name!r} of run {run_id!r} was not kept: there was a secret in it",
        code="artifact_blocked",
        next="Let the agent keep it without the secret.",
        run=run_id,
        artifact=found.name,
    )
