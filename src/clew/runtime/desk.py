"""What people decide about runs and what they see of them: plan, settle, abort, pause, unlock, look. Runs no agent."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import msgspec

from clew.core.approvals import Approve, Judgement, Reject
from clew.core.artifacts import artifact_rows
from clew.core.ids import split_key
from clew.core.known import KnownEnd
from clew.core.resume import ResumePlan
from clew.core.review import Settlement
from clew.core.snapshot import RunResult
from clew.runtime.commanding import abort_run, pause_run, steer_run
from clew.runtime.comparing import Difference, diff_run
from clew.runtime.deciding import decide_run
from clew.runtime.keybook import KeyBook
from clew.runtime.opening import HomeParts, Wanted, plan_of
from clew.runtime.pruning import Asked, prune_home
from clew.runtime.reader import Reader
from clew.runtime.recovery import Unlock
from clew.runtime.restoring import Wish, restore_run
from clew.runtime.reviewing import Said
from clew.runtime.settling import settle_run
from clew.runtime.shelves import KeptArtifact, kept_artifact
from clew.runtime.tools import as_agent
from clew.runtime.unlocking import accept_loss_run, unlock_run


class Desk:
    """The part of a home at which people decide and look; it is given its parts and knows no concrete store."""

    def __init__(self, parts: HomeParts) -> None:
        self._parts = parts
        self.reader = Reader(parts.store, parts.blobs, parts.clock, parts.upkeep, parts.sessions)

    def require(self) -> Self:
        """This home, if there is one."""
        return self

    # Deciding.

    def plan(self, run_id: str, agent: Any = None) -> ResumePlan | None:
        """The decision how a stopped run may go on; touches nothing. None when only its end has to be written.

        Raises:
            as `resume`.
        """
        state = self.reader.see(self.find(run_id)).state
        return plan_of(self._parts, state, None if agent is None else as_agent(agent), Wanted())

    def settle(
        self, run: str, verdict: Settlement, *, by: str, reason: str, call: str | None = None,
        evidence: Sequence[str] = (), control_id: str = "", attempt: int = 0,
    ) -> dict[str, Any]:  # fmt: skip
        """Record what a person found out about an open effect.

        `run` is a run id (or a part of it), or an effect's key `run:step:call`; `call` its step id, call id or key,
        left out when one effect is open; `verdict` is `Happened(result)`, `Happened()`, `DidNotHappen()` or `GiveUp()`.
        `control_id`: an id of yours; sent again under it, the same is done once (`pause`, `abort`, `steer` alike).
        `attempt`: the one that was looked at; the last one when left out.

        Returns:
            The effect's row as it stands now.

        Raises:
            Refused: `nothing_to_settle`, `review_conflict`. UsageError: `review_incomplete`, `which_effect`. Held.
        """
        if ":" in run:
            run, call = split_key(run)[0], run
        said = Said(by, reason, tuple(evidence))
        return settle_run(self._parts, self.find(run), call, verdict, said, control_id, attempt)

    def approve(
        self, run: str, *, by: str, reason: str, call: str | None = None, expires_in_s: float | None = None
    ) -> dict[str, Any]:
        """Let one start happen that waits for a person; it is used up by that start.

        `call` is the approval's id, or its call's step, call id or key, left out when one waits; `run` may be the key.
        Not used within `expires_in_s` seconds, it lapses.

        Returns:
            The approval's row as it stands now.

        Raises:
            Refused: `nothing_to_approve`, `approval_closed`, `approval_expired`. UsageError: `review_incomplete`,
                `which_approval`, `invalid_expiry`. Held.
        """
        return self._decide(run, call, Approve(by, reason, expires_in_s))

    def deny(
        self, run: str, *, by: str, reason: str, call: str | None = None, as_answer: bool = False
    ) -> dict[str, Any]:
        """Refuse one start: the run stays paused and asks anew when it is resumed.

        `as_answer`: the refusal is what the agent is told (`Denied`), for good; it may go on without the call.

        Returns, raises:
            as `approve`.
        """
        return self._decide(run, call, Reject(by, reason, as_answer))

    def _decide(self, run: str, call: str | None, said: Judgement) -> dict[str, Any]:
        if ":" in run:
            run, call = split_key(run)[0], run
        return decide_run(self._parts, self.find(run), call, said)

    def abort(self, run: str, *, by: str, reason: str, control_id: str = "") -> dict[str, Any]:
        """End a run for good; what was started stays listed. A living writer does it itself.

        Returns:
            `status`: `applied`, or `duplicate` under a `control_id` that was used; of a dead run `effects`, what it had
            started, and `alive`, what of it could not be ended, by attempt and in words.
        """
        return abort_run(self._parts, self.find(run), Said(by, reason), control_id)

    def pause(self, run: str, *, by: str, reason: str, control_id: str = "") -> dict[str, Any]:
        """Ask a living run to pause at its next safe point."""
        return pause_run(self._parts, self.find(run), Said(by, reason), control_id)

    def steer(
        self, run: str, text: str, *, by: str, reason: str = "a word to the agent", control_id: str = ""
    ) -> dict[str, Any]:
        """Tell a run's agent something, which it reads by `run.steering()`, in this leg or a later one.

        Raises:
            UsageError: `control_invalid` when the text is empty or too long. Refused: `run_already_finished`. Held.
        """
        return steer_run(self._parts, self.find(run), text, Said(by, reason), control_id)

    def unlock(self, run: str, *, nonce: str, by: str, reason: str) -> dict[str, Any]:
        """Close the leg of an owner that cannot be proven gone, on a person's word."""
        return unlock_run(self._parts, self.find(run), Unlock(nonce, by, reason))

    def accept_loss(self, run: str, *, by: str, reason: str, nonce: str = "") -> dict[str, Any]:
        """Go on from what a journal still has, on a person's word, although its head says that there was more.

        `nonce` is that of the leg in which the journal now ends, when its owner cannot be proven gone.

        Raises:
            Refused: `nothing_to_accept` when nothing is missing. Corrupt: it is damaged in another way.
        """
        return accept_loss_run(self._parts, self.find(run), Said(by, reason), nonce)

    def restore(
        self, run: str, checkpoint: str, paths: Sequence[str] = (), *, by: str, reason: str = "requested",
        dry_run: bool = False, merge: bool = False, later: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        """Put the paths of a checkpoint back as they stood before its call; what somebody changed since stays.

        Args:
            run: A run id, or a unique part of it.
            checkpoint: `k3`, as `diff` names it.
            paths: Only these, and what lies below them; all when left out.
            by: Who asks.
            reason: Why.
            dry_run: Only say what would become of each path.
            merge: Try to merge a text that was changed since; what meets stays a conflict, and no marks are written.
            later: Take back what later checkpoints of the run did as well.

        Returns, raises:
            as `runtime.restoring.restore_run`.
        """
        wish = Wish(checkpoint, tuple(paths), later, merge)
        return restore_run(self._parts, self.find(run), wish, Said(by, reason), dry_run=dry_run)

    # Looking.

    def diff(self, run: str, checkpoint: str | None = None) -> Iterator[Difference]:
        """What each checkpoint's call changed, or one's, and how that stands now; nothing is touched.

        Raises:
            NotFound: `unknown_run`, `checkpoint_not_found`. UsageError: `invalid_checkpoint_id`. Corrupt.
        """
        return diff_run(self._parts, self.find(run), checkpoint)

    def runs(self) -> Iterator[dict[str, Any]]:
        """One row a run, the last started first; `unreadBytes` says what of a long journal the row does not know."""
        yield from self.reader.rows()

    def find(self, part: str) -> str:
        """A run id from a unique part of it, or `@last`. `NotFound` (`no_home`, `unknown_run`), `UsageError`."""
        return self.require().reader.find(part)

    def find_key(self, key: Any, tool: str | None = None) -> list[dict[str, Any]]:
        """Who has a business key: one row for each tool of which a call has it, none when nobody does.

        A row has `businessKey` (redacted), `run`, `step`, `call`, `key`, `state` and, once it is recorded, `answer`.

        Raises:
            NotFound: `no_home`, `no_key_index`. UsageError: `invalid_business_key`. Corrupt: `key_claim_corrupt`.
        """
        return self.require()._keys().find(key, tool)

    def rebuild_keys(self) -> dict[str, Any]:
        """Make the index of business keys hold what the journals hold, and say what was different.

        Raises:
            NotFound: `no_home`. Refused: `home_copied`, `key_index_unusable`. Storage.
        """
        report: dict[str, Any] = msgspec.to_builtins(self.require()._keys().rebuild())
        return report

    def _keys(self) -> KeyBook:
        parts = self._parts
        return KeyBook(parts.keys, parts.store, parts.blobs, parts.clock)

    def result(self, run: str) -> RunResult:
        """How a run stands, without touching it."""
        return self.reader.result(self.reader.see(self.find(run)).state)

    def artifacts(self, run: str) -> list[dict[str, Any]]:
        """One row for each artifact of a run, as in its snapshot, in the order in which their names came."""
        return artifact_rows(self.reader.see(self.find(run)).state)

    def artifact(self, run: str, name: str) -> KeptArtifact:
        """An artifact of a run: `row` is what is recorded, `read()` its content, `pieces()` the same bit by bit.

        Raises:
            NotFound: `unknown_artifact`; from reading, `blob_pruned`, `blob_missing`. Refused: `artifact_blocked`.
            Corrupt: from reading, `blob_corrupt`.
        """
        return kept_artifact(self._parts.blobs, self._parts.upkeep, self.reader.see(self.find(run)).state, name)

    def prune(
        self, *, keep_days: float | None = None, quota_bytes: int | None = None, answers: bool = False,
        dry_run: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        """Drop what no run needs any more, alone in the home. Journals, receipts and heads are never dropped.

        What no journal refers to, and halves that dead processes left, go always. Contents of checkpoints and
        artifacts of runs that have ended go, the oldest first, where one of the first two arguments asks for it.

        Args:
            keep_days: Contents of runs that ended in so many days are never dropped.
            quota_bytes: Of what is old enough, so much goes that the blobs take no more than this.
            answers: Long answers of ended runs go as contents do, except those under a business key.
            dry_run: Only say what would go; takes no lock and changes nothing.

        Returns:
            `went` and `stayed` by reason, each with `count` and `bytes`; `freedBytes`; `dropped`, a row for each blob
            with `sha256`, `why`, `runs`, `storedBytes`; `quotaMet`, null without a quota.

        Raises:
            Held: `home_in_use`; its fact `runs` names those that go on. UsageError: `invalid_retention`.
            Refused: `prune_unsupported`, `home_copied`. Corrupt: a journal cannot be read; nothing was dropped.
            Storage: some of it may be gone; done again it goes on.
        """
        asked = Asked(keep_days, quota_bytes, answers, dry_run)
        return prune_home(self.require()._parts, self.reader, asked)

    def verify(self, run: str, *, deep: bool = False, known: KnownEnd | None = None) -> dict[str, Any]:
        """Check a run's journal to its end. `Corrupt` with line and byte; nothing is changed.

        `deep`: a second reader judges it by the twelve invariants as well; `findings` is what it found.
        `known`: how far it had come by an earlier verdict; a journal that was cut or put back since is `Corrupt`.
        """
        return self.reader.verify(self.find(run), deep=deep, known=known)
