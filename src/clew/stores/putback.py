"""Paths that are put back, in the order in which that can be done. How one path is, is known to `swap`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from clew.core.checkpoint import ABSENT, PathState
from clew.disk.failures import failure
from clew.errors import ClewError
from clew.stores.base.kept import BlobStore
from clew.stores.base.workspace import PutBack, PutBackEnd
from clew.stores.ground import Ground
from clew.stores.swap import Stays, Swap

_OWNER = 0o700


def put_back(ground: Ground, plan: Sequence[PutBack], blobs: BlobStore, mark: str) -> list[PutBackEnd]:
    """Let paths stand as they did; one end for each, in the order of the plan (`stores.base.Workspace.put_back`)."""
    ends: dict[str, PutBackEnd] = {}
    for step in ordered(plan):
        first = ends.get(step.path)
        if first is None:
            ends[step.path] = _one(ground, step, blobs, mark)
        elif first.outcome == "restored":
            # A folder comes a second time for its mode; without it, it stands as nobody said.
            end = _one(ground, step, blobs, mark)
            if end.outcome not in ("restored", "unchanged"):
                ends[step.path] = msgspec.structs.replace(end, outcome="unknown")
    return [ends[step.path] for step in plan]


def ordered(plan: Sequence[PutBack]) -> Iterator[PutBack]:
    """Folders that may be changed again; what goes, the deepest first; what comes; then the modes of other folders."""
    downwards = sorted(plan, key=lambda step: step.path.split("/"))
    upwards = downwards[::-1]
    yield from (step for step in downwards if _is_mode(step) and _opens(step.wanted))
    yield from (step for step in upwards if step.wanted == ABSENT)
    yield from (step for step in downwards if step.wanted != ABSENT and not _is_mode(step))
    yield from (step for step in upwards if step.wanted.kind == "folder" and not _opens(step.wanted))


def _is_mode(step: PutBack) -> bool:
    return step.found.kind == step.wanted.kind == "folder"


def _opens(state: PathState) -> bool:
    return (state.mode or 0) & _OWNER == _OWNER


def _one(ground: Ground, step: PutBack, blobs: BlobStore, mark: str) -> PutBackEnd:
    absent = PutBackEnd(step.path, "unchanged" if step.wanted == ABSENT else "conflict", ABSENT)
    try:
        with ground.folder_of(step.path, make=step.found == ABSENT != step.wanted) as (folder, name):
            return Swap(folder, name, step, blobs, mark).run()
    except Stays as stays:
        return stays.end
    except (FileNotFoundError, NotADirectoryError):
        if absent.outcome == "unchanged":
            return absent
        return PutBackEnd(step.path, "conflict", ABSENT, "on the way there is no folder, or a link in its place")
    except OSError as fault:
        refused = failure(fault, ground.root / Path(step.path), "put back")
        return PutBackEnd(step.path, "failed", None, refused.message, refused.code)
    except ClewError as refusal:
        return PutBackEnd(step.path, "failed", None, refusal.message, refusal.code)
