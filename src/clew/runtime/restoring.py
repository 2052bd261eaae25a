"""Paths of a run's checkpoint are put back, one by one, where nobody changed them since. Decides nothing by itself."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from clew.core.checkpoint import Checkpoint, PathState
from clew.core.folding import fold
from clew.core.ids import call_short
from clew.core.merging import MERGE_BYTES, merged
from clew.core.restored import Begun, Intent, Outcome, Told, restore_ended, restore_started, unfinished
from clew.core.restoring import Decision, chosen, intents, merged_mode, needed, planned
from clew.core.resume import check_ours
from clew.core.state import RunState
from clew.errors import ClewError, Held, Refused, UsageError
from clew.runtime.checkpoint import stand_each
from clew.runtime.comparing import (
    checkpoints_of,
    content_of,
    find_checkpoint,
    read_kept,
    standing_content,
    unrolled,
    why_gone,
    workspace_of,
)
from clew.runtime.ending import publish
from clew.runtime.journal import Journal
from clew.runtime.living import running_here
from clew.runtime.opening import HomeParts
from clew.runtime.recovery import Reopened, close_quietly, end_leg
from clew.runtime.reviewing import Said
from clew.runtime.settling import finished_first
from clew.stores.base import PutBack, PutBackEnd, Workspace


class Wish(msgspec.Struct, frozen=True):
    """What is to be put back.

    Attributes:
        checkpoint: `k3`.
        paths: Only these and what lies below them; all of it when none is named.
        later: Take back what later checkpoints of the run did as well.
        merge: Try to merge what somebody changed since.
    """

    checkpoint: str
    paths: tuple[str, ...] = ()
    later: bool = False
    merge: bool = False


def restore_run(place: HomeParts, run_id: str, wish: Wish, said: Said, *, dry_run: bool = False) -> dict[str, Any]:
    """Put paths back as they stood before an effect. What somebody changed since stays, and is told.

    What is about to be done is recorded before the first path is touched, and what became of each at the end. Where
    nothing is to be done, nothing is recorded. After a death the same again goes on.

    Returns:
        `runId`, `checkpointId`, `through` with `later`, `restoreId` when something was done, `dryRun`, and `paths`: for
        each `path`, `outcome` (`restored`, `merged`, `unchanged`, `conflict`, `unknown`, `failed`) and, where there is
        something to say, `why`, `by` and `code`. Of a dry run, what would become of them.

    Raises:
        NotFound: `unknown_run`, `checkpoint_not_found`. UsageError: `invalid_checkpoint_id`, `path_not_recorded`.
        Refused: `foreign_run`, `checkpoint_not_reversible`; `restore_unfinished` while another one is.
        Held: somebody runs it, or its owner is not proven gone; `process_alive`: something that an open attempt began
            still lives. Corrupt, Storage.

    Source:
        DESIGN §7; contract #145 to #151, #155; cases C53 to C65.
    """
    if dry_run:
        state = fold(place.store.read(run_id), run_id)
        return _report(state, wish, Job(place, state, wish).expected(), dry_run=True)
    writer = place.store.open(run_id)
    try:
        opened = finished_first(place, Reopened(place.store, place.clock, writer, "control"))
        writer = opened.writer
        opened.take_over(place.takeover)
        job = Job(place, opened.state, wish)
        if not job.has_work:
            writer.close()
            return _report(opened.state, wish, job.expected())
        journal = opened.begin(then=[job.started(said)])
    except BaseException:
        writer.close()
        raise
    try:
        told = _done(journal, job, said)
        publish(journal)
    finally:
        end_leg(journal)
    return _report(journal.state, wish, told, restored=True)


def _done(journal: Journal, job: "Job", said: Said) -> list[Told]:
    """The deed and its end, in one leg; one that is not ended is gone on with by the next."""
    begun = journal.state.restores.begun
    assert begun is not None
    try:
        told = job.put_back()
        journal.append([restore_ended(begun, told, by=said.by, reason=said.reason)])
    except BaseException:
        with suppress(ClewError):
            close_quietly(journal)
        raise
    close_quietly(journal)
    return told


def _report(
    state: RunState, wish: Wish, told: Iterable[Told], *, dry_run: bool = False, restored: bool = False
) -> dict[str, Any]:
    return {
        "runId": state.run_id,
        "checkpointId": wish.checkpoint,
        **({"later": True} if wish.later else {}),
        "restoreId": f"restore-{state.restores.count}" if restored else None,
        "dryRun": dry_run,
        "paths": [msgspec.to_builtins(each) for each in told],
    }


class Job:
    """One restore, planned from how everything stands; it is of no use any more when something has moved since."""

    def __init__(self, place: HomeParts, state: RunState, wish: Wish) -> None:
        check_ours(state)
        self.place, self.state, self.wish = place, state, wish
        self.workspace: Workspace = workspace_of(place, state)
        self.begun = _begun(state, wish)
        self._mixed: dict[str, tuple[PathState, bytes]] = {}
        known = checkpoints_of(state)[find_checkpoint(state, wish.checkpoint) :]
        kept = [read_kept(place, state, each) for each in known]
        count = len(kept) if wish.later else 1
        self.span = [unrolled(place, self.workspace, taken) for taken in kept[:count]]
        for taken in self.span:
            _check_reversible(state, taken)
        self._check_over()
        self.decisions = self._decided(kept[count:])

    def _check_over(self) -> None:
        """What still writes would write over what was put back: `Held` (`process_alive`)."""
        open_ = [taken for taken in self.span if taken.after is None]
        living = running_here() | (dict(self.place.processes.living(self.state.run_id)) if open_ else {})
        for taken in open_:
            words = living.get(f"{taken.key}#{taken.attempt}")
            if words is not None:
                raise Held(
                    f"what attempt {taken.attempt} of {taken.key!r} began still lives, and may still write: {words}",
                    code="process_alive",
                    next="Wait for it or end it, then do it again.",
                    run=self.state.run_id,
                    checkpoint=taken.checkpoint_id,
                )

    def _decided(self, later: Sequence[Checkpoint]) -> list[Decision]:
        begun, paths = self.begun, self._chosen()
        now, unseen = stand_each(self.workspace, paths)

        def decide(gone: Mapping[str, str]) -> list[Decision]:
            how = {"begun": begun, "merge": self.wish.merge, "unseen": unseen}
            return planned(self.span, later, paths, now, gone=gone, **how)  # type: ignore[arg-type]  # by name

        found = decide({})
        gone = self._gone({digest for decision in found for digest in needed(decision)})
        found = decide(gone) if gone else found
        return [self._mix(decision) if decision.deed == "merge" else decision for decision in found]

    def _chosen(self) -> list[str]:
        """The paths that are meant; what an earlier restore had in hand is among them, whatever is named."""
        found = chosen(self.span, self.wish.paths)
        unknown = [name for name in self.wish.paths if not chosen(self.span, (name,))]
        if unknown:
            raise _not_recorded(self.state, self.wish, unknown[0])
        if self.begun is None:
            return found
        earlier = self.begun.wanted.keys() & set(chosen(self.span))
        return sorted({*found, *earlier})

    def _gone(self, digests: Iterable[str]) -> dict[str, str]:
        """Which of these contents are missing or damaged, in words."""
        lost = [digest for digest in digests if not self.place.blobs.has(digest)]
        found = {digest: why_gone(self.place, self.state.run_id, digest) for digest in lost}
        return {digest: f"its content cannot be had: {why}" for digest, why in found.items() if why}

    def _mix(self, decision: Decision) -> Decision:
        """Both changes in one content; or a conflict, for what cannot be merged stays as it is."""
        base, now, to = decision.base, decision.now, decision.to
        assert base is not None
        mode, content = merged_mode(base.mode, now.mode, to.mode), self._content(base, decision)
        if content is None or mode is None:
            return msgspec.structs.replace(decision, deed="conflict", why="somebody changed it since; no clean merge")
        digest = hashlib.sha256(content).hexdigest()
        self._mixed[decision.path] = PathState("file", digest, len(content), mode), content
        return decision

    def _content(self, base: PathState, decision: Decision) -> bytes | None:
        if max(state.size_bytes or 0 for state in (base, decision.now, decision.to)) > MERGE_BYTES:
            return None
        sides = [content_of(self.place, self.workspace, decision.path, state) for state in (base, decision.to)]
        ours = standing_content(self.workspace, decision.path, decision.now)
        return None if ours is None or None in sides else merged(sides[0], ours, sides[1])  # type: ignore[arg-type]  # not None

    @property
    def has_work(self) -> bool:
        """Is a path to be touched, or the end of an earlier restore to be told?"""
        return self.begun is not None or any(decision.touches for decision in self.decisions)

    def started(self, said: Said) -> dict[str, Any]:
        """What is about to be done, for the journal; its contents are all kept then."""
        for _, content in self._mixed.values():
            self.place.blobs.put(content)
        return restore_started(
            f"restore-{self.state.restores.count + 1}",
            self.wish.checkpoint,
            self._intents(),
            by=said.by,
            reason=said.reason,
            through=self.span[-1].checkpoint_id if self.wish.later else "",
            goes_on="" if self.begun is None else self.begun.restore_id,
        )

    def _intents(self) -> list[Intent]:
        return intents(self.decisions, {path: state for path, (state, _) in self._mixed.items()}, self.begun)

    def put_back(self) -> list[Told]:
        """Do it; each path by itself, whatever becomes of the others."""
        wanted = self._intents()
        plan = [PutBack(intent.path, intent.found, intent.wanted) for intent in wanted]
        mark = call_short(f"{self.state.run_id}:{self.wish.checkpoint}:restore")
        ends = self.workspace.put_back(plan, self.place.blobs, mark=mark)
        told = {each.path: each for each in self.expected()}
        for intent, end in zip(wanted, ends, strict=True):
            told[end.path] = _told(end, told.get(end.path), mixed=intent.merged)
        return [told[path] for path in sorted(told)]

    def expected(self) -> list[Told]:
        """What is to become of each path."""
        return [_expected(decision) for decision in self.decisions]


def _expected(decision: Decision) -> Told:
    outcomes: dict[str, Outcome] = {"restore": "restored", "merge": "merged", "conflict": "conflict"}
    outcome = outcomes.get(decision.deed, "unchanged" if decision.deed == "unchanged" else "unknown")
    code = "checkpoint_conflict" if outcome in ("conflict", "unknown") else ""
    return Told(decision.path, outcome, decision.why, decision.by, code)


def _told(end: PutBackEnd, expected: Told | None, *, mixed: bool) -> Told:
    """What became of a path that was handed in; where nothing was done, what was decided of it says more."""
    if expected is not None and end.outcome == expected.outcome and end.outcome in ("unchanged", "conflict"):
        return expected
    outcome: Outcome = "merged" if mixed and end.outcome in ("restored", "unchanged") else end.outcome
    code = end.code or ("checkpoint_conflict" if outcome == "conflict" else "")
    return Told(end.path, outcome, end.why, code=code)


def _begun(state: RunState, wish: Wish) -> Begun | None:
    """The restore that was cut off, if it was of the same; another one must be gone on with first."""
    begun = state.restores.begun
    if begun is None or (begun.checkpoint_id, bool(begun.through)) == (wish.checkpoint, wish.later):
        return begun
    raise unfinished(state.run_id, begun)


def _check_reversible(state: RunState, taken: Checkpoint) -> None:
    if taken.reversible and taken.before is not None:
        return
    why = "nothing of it is kept" if not taken.reversible else "nobody recorded what it changed"
    raise Refused(
        f"checkpoint {taken.checkpoint_id!r} of {taken.tool!r} cannot be put back: {why}",
        code="checkpoint_not_reversible",
        next=f"Look at it with `clew diff {state.run_id} {taken.checkpoint_id}`, and change the files by hand.",
        run=state.run_id,
        checkpoint=taken.checkpoint_id,
    )


def _not_recorded(state: RunState, wish: Wish, name: str) -> UsageError:
    return UsageError(
        f"checkpoint {wish.checkpoint!r} holds nothing of {name!r}",
        code="path_not_recorded",
        next=f"Name paths as `clew diff {state.run_id} {wish.checkpoint}` shows them, relative to the workspace.",
        run=state.run_id,
        checkpoint=wish.checkpoint,
        path=name,
    )
