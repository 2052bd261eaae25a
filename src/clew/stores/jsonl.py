"""Runs as files: one journal a run, its head, its inbox and its cut ends beside it, below one home folder."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from clew.core.codec import MAX_APPEND
from clew.core.ids import check_id
from clew.core.records import Batch, Head, Record
from clew.disk import files, presence, process
from clew.disk.append import AppendFile, birth
from clew.disk.mounts import file_system
from clew.disk.naming import Naming
from clew.errors import Corrupt, UsageError
from clew.stores.base import Boundary, Command, CommandAnswer, Proof, Tail, TailRepaired
from clew.stores.homefile import LOCK, HomeFile
from clew.stores.inbox import FileInbox
from clew.stores.published import decode, encode
from clew.stores.refusals import (
    being_pruned,
    empty_run,
    head_corrupt,
    held,
    id_taken,
    poisoned,
    require_free,
    unknown_run,
)
from clew.stores.repair import keep_and_cut
from clew.stores.scan import JournalReading, OwnerState, place_of_repeated, record_of_line

_JOURNAL = ".jsonl"
_HEAD = "head.json"
_HEAD_LIMIT = 1 << 20
_HOLD_S = 2.0
_LOCAL: dict[bool | None, process.Answer] = {True: "yes", False: "no", None: "cannot_tell"}


class FileRunStore:
    """The runs below one folder (`.clew`): a run store (`stores.base.RunStore`) of files that anyone can read.

    Making one touches nothing. Readers never write and never lock.

    Source:
        DESIGN §4; reference/journal.md.
    """

    boundary: Boundary = "power_loss"

    def __init__(self, root: Path) -> None:
        self._root = root
        self._runs = root / "runs"
        self._is_made = False
        self._home = HomeFile(root)

    def ids(self) -> list[str]:
        """All run ids, in no promised order; unreadable journals included."""
        names = files.list_names(files.unlinked(self._runs))
        stems = (name.removesuffix(_JOURNAL) for name in names if name.endswith(_JOURNAL))
        return [stem for stem in stems if _is_id(stem)]

    def create(self, run_id: str, batch: Batch, *, wait_s: float = 0.0) -> "FileRunWriter":
        """Give birth to a journal, locked, with its first append. Nobody can hold a new one, so nothing waits.

        Raises:
            Refused: `run_id_conflict` when the id exists, or differs from an existing one by case only.
            Refused: `home_layout_unknown`. UsageError: `invalid_run_id`. Corrupt: `home_file_corrupt`.
            Held: `home_being_pruned`. Storage: it cannot be made; there is no journal then, or a whole one.
        """
        del wait_s
        path, folder = self._places(check_id(run_id))
        if files.size_of(path) is not None:
            raise id_taken(run_id, run_id)
        self._make(path.parent)
        guest = self._join(_HOLD_S)
        try:
            file = birth(path, batch.data, self._naming(run_id, path))
        except FileExistsError:
            raise id_taken(run_id, run_id) from None
        # Made for its name, and synced with it, unless it is spelt otherwise.
        writer = FileRunWriter(run_id, file, folder, None, has_folder=run_id == run_id.casefold(), guest=guest)
        writer.adopt(batch.last, batch.chain)
        return writer

    def open(self, run_id: str, *, wait_s: float = 2.0, ignore_head: bool = False) -> "FileRunWriter":
        """Take the journal's lock; `ignore_head` reads it as it is, and its head starts anew.

        Raises:
            NotFound: `unknown_run`. Held: `run_state_locked` after `wait_s` seconds, with the holder;
                `home_being_pruned`.
            Refused: `home_copied`, `home_layout_unknown`.
            Storage: it cannot be opened for writing. Corrupt: `head_corrupt`, `home_file_corrupt`.
        """
        path = self._existing(run_id)
        self._home.require_own()
        # Where nothing of ours lies yet, whoever is refused leaves nothing: who goes on comes in with `adopt`.
        guest = self._join(wait_s) if files.size_of(self._home.path) is not None else None
        try:
            file = AppendFile.open(path, wait_s=wait_s)
        except FileNotFoundError:
            raise unknown_run(run_id, str(path.parent)) from None
        if file is None:
            raise self._held(run_id)
        try:
            head = None if ignore_head else self.head(run_id)
            entered = partial(self._entered, guest, wait_s)
            return FileRunWriter(run_id, file, self._run_folder(run_id), head, entered, guest=guest)
        except BaseException:
            file.close()
            raise

    def read(self, run_id: str) -> JournalReading:
        """Read without lock. `NotFound` (`unknown_run`), `Corrupt` (`head_corrupt`)."""
        # The head first: one that is published later may name records behind the end that is read here.
        head = self.head(run_id)
        return JournalReading(run_id, _FileSource(self._existing(run_id)), head, self.owner_state)

    def record_at(self, run_id: str, position: int) -> Record:
        """The record at a position that a reading or an append gave. `Corrupt` when it is not there any more."""
        line = files.read_line(self._existing(run_id), position, MAX_APPEND)
        return record_of_line(run_id, line, position)

    def head(self, run_id: str) -> Head | None:
        """The published head, or None when there is none. `Corrupt` (`head_corrupt`) when it cannot be read."""
        if not _is_id(run_id):
            return None
        path = self._run_folder(run_id) / _HEAD
        data = files.read_bytes(path, _HEAD_LIMIT)
        try:
            return None if data is None else decode(data, Head)
        except ValueError as error:
            raise head_corrupt(run_id, str(path), str(error)) from error

    def size_bytes(self, run_id: str) -> int:
        """Length of the journal now. `NotFound` (`unknown_run`)."""
        return files.size_of(self._existing(run_id)) or 0

    def locate(self, run_id: str) -> str:
        """The path of the journal."""
        return str(self._journal(run_id))

    def owner_state(self, owner: dict[str, Any]) -> OwnerState:
        """What a reader may say of a leg's process, without any lock."""
        return process.owner_state(owner, process.identity())

    def identity(self) -> dict[str, Any]:
        """Who this process is."""
        return process.identity()

    def post(self, command: Command) -> None:
        """Put a command into the inbox. `NotFound`, `Refused` (`control_conflict`)."""
        self._inbox(command.run_id).post(command)

    def pending(self, run_id: str) -> Sequence[Command]:
        """Commands without an answer, by control id."""
        return self._inbox(run_id).pending()

    def unreadable_commands(self, run_id: str) -> Sequence[str]:
        """Paths of files in the inbox that hold no command. They are reported, never deleted."""
        return self._inbox(run_id).unreadable()

    def answer(self, run_id: str, answer: CommandAnswer) -> None:
        """Answer a command where its sender looks."""
        self._inbox(run_id).answer(answer)

    def answered(self, run_id: str, control_id: str) -> CommandAnswer | None:
        """The answer to a command, once there is one."""
        return self._inbox(run_id).answered(control_id)

    def _join(self, wait_s: float) -> presence.Guest:
        """Hold the home beside other legs, so that nothing is pruned meanwhile. `Held` (`home_being_pruned`)."""
        path = self._root / LOCK
        guest = presence.join(path, wait_s)
        if guest is None:
            raise being_pruned(str(self._root), presence.who(path))
        return guest

    def _entered(self, guest: presence.Guest | None, wait_s: float) -> presence.Guest:
        """Be at work in the home; one that was made before there was a `home.json` gets its own now."""
        guest = guest or self._join(wait_s)
        self._home.make()
        return guest

    def _make(self, runs: Path) -> None:
        """The folders of a home, once for each store: looking again would cost two syncs a run."""
        if not self._is_made:
            self._home.found()
            files.make_folder(runs)
            self._claim_known(runs)
            self._is_made = True

    def _claim_known(self, runs: Path) -> None:
        """A journal that was copied here alone has no folder yet that keeps its name from another spelling of it."""
        names = set(files.list_names(runs))
        for run_id in self.ids():
            if run_id.casefold() not in names:
                files.claim_folder(runs / run_id.casefold())

    @contextmanager
    def _naming(self, run_id: str, path: Path) -> Iterator[None]:
        """The moment in which a run gets its name, one at a time, without a look at all other runs.

        The folder named as the id is where case is ignored stands for it. Where it is already, there is such a run, or
        a birth was cut off here.
        """
        claim = path.parent / run_id.casefold()
        with Naming(path.parent):
            claimed = files.claim_folder(claim)
            try:
                if not claimed:
                    require_free(run_id, self.ids())
                yield
            except BaseException:
                if claimed:
                    files.remove_empty(claim)
                raise

    def _inbox(self, run_id: str) -> FileInbox:
        return FileInbox(self._existing(run_id).parent, run_id)

    def _held(self, run_id: str) -> Exception:
        leg, since = None, ""
        with suppress(Corrupt):
            reading = self.read(run_id)
            for _ in reading:
                pass
            leg, since = reading.leg, reading.leg_since
        return held(run_id, leg, since, self.owner_state(leg) if leg else "elsewhere")

    def _existing(self, run_id: str) -> Path:
        """A journal that is there; an empty file without a head is none, for each is born with its first append."""
        if not _is_id(run_id):
            raise unknown_run(run_id, str(self._root))
        path = self._journal(run_id)
        size = files.size_of(path)
        if not size and (size is None or files.size_of(self._run_folder(run_id) / _HEAD) is None):
            raise unknown_run(run_id, str(path.parent)) if size is None else empty_run(run_id, str(path))
        return path

    def _places(self, run_id: str) -> tuple[Path, Path]:
        """Where a run's journal and its folder are, or will be."""
        path = self._journal(run_id)
        return path, files.below(self._runs, run_id)

    def _journal(self, run_id: str) -> Path:
        return files.unlinked(self._runs) / f"{run_id}{_JOURNAL}"

    def _run_folder(self, run_id: str) -> Path:
        return files.below(files.unlinked(self._runs), run_id)


class FileRunWriter:
    """The one writer of a journal file (`stores.base.RunWriter`). Lives as long as a leg."""

    def __init__(
        self, run_id: str, file: AppendFile, folder: Path, head: Head | None,
        enter: Callable[[], presence.Guest] | None = None, *, has_folder: bool = False,
        guest: presence.Guest | None = None,
    ) -> None:  # fmt: skip
        self.run_id = run_id
        self._guest = guest
        self._enter = enter
        self._file = file
        self._folder = folder
        self._head = head
        self._has_folder = has_folder
        self._reading: JournalReading | None = None
        self._sequence = 0
        self._interrupted = False

    def read(self) -> JournalReading:
        """Read what the device has, not what the cache shows. `Storage` when the sync before it fails."""
        self._file.forget_cache()
        self._reading = JournalReading(self.run_id, self._file, self._head)
        return self._reading

    def prove(self, owner: dict[str, Any]) -> tuple[Proof, ...]:
        """Is the owner of an unclosed leg provably gone?

        Source:
            DESIGN §4, table of "Lock"; reliability f, proofs (1) to (4).
        """
        self._require_sound()
        found = file_system(self._file.path)
        gone = process.prove_gone(owner, process.identity())
        return (
            Proof("kernel_lock", "yes"),
            Proof("local_file_system", _LOCAL[found.local], found.name),
            Proof("same_inode", "yes" if self._file.is_same() else "no"),
            Proof("process_gone", gone.answer, gone.fact),
        )

    def repair(self, tail: Tail, sequence: int) -> tuple[TailRepaired, ...]:
        """Make the end clean after `read`, and name what was cut at this byte, now and before."""
        self._require_sound()
        repaired = keep_and_cut(self._file, self._folder, tail, sequence)
        self._reading = None
        return repaired

    def adopt(self, sequence: int, chain: str) -> None:
        """Say where the next append goes on; from now on this is a leg in its home."""
        del chain
        assert self._reading is None or self._reading.tail.verdict == "clean", "the end was not repaired"
        if self._enter is not None:
            self._guest = self._enter()
        self._sequence = sequence

    def append(self, batch: Batch, *, starts_effect: bool = False) -> int:
        """One write and one sync. Returns where the batch begins, when it is durable.

        Raises:
            Storage: `fact_ledger_poisoned`, `journal_replaced`, `disk_full`, `storage_denied`, `run_state_failed`,
                `durability_barrier_failed`, `run_state_conflict`. After each of them, and after an interrupt, the
                writer is poisoned.
        """
        self._require_sound()
        self._interrupted = True
        # An append that was interrupted right behind its sync is in the file, though its caller never heard of it.
        if batch.first != self._sequence + 1:
            at = place_of_repeated(batch, self._file, self._sequence + 1)
            self._interrupted = False
            return at
        at = self._file.append(batch.data, check_path=starts_effect)
        self._sequence = batch.last
        self._interrupted = False
        return at

    @property
    def poisoned(self) -> bool:
        """True after a failed or interrupted append, after `close`, and in a forked child."""
        return self._interrupted or self._file.poisoned

    @property
    def size_bytes(self) -> int:
        """Length of the journal up to the last acknowledged append."""
        return self._file.size_bytes

    def publish_head(self, head: Head) -> None:
        """Replace the head by one that is at least as far, and names nothing that is not acknowledged."""
        self._require_sound()
        assert head.sequence <= self._sequence, "a head is a lower bound"
        assert self._head is None or head.sequence >= self._head.sequence, "a head never goes back"
        if self._head is None and not self._has_folder:
            files.make_folder(self._folder)
        files.publish(self._folder / _HEAD, encode(head))
        self._head = head

    def close(self) -> None:
        """Let the lock go. Safe to call twice."""
        self._file.close()
        if self._guest is not None:
            self._guest.leave()

    def _require_sound(self) -> None:
        if self.poisoned:
            raise poisoned(self.run_id)


class _FileSource:
    """The bytes of a journal by its path, opened anew for each look."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pieces(self, start: int) -> Iterator[bytes]:
        return files.pieces(self._path, start)


def _is_id(name: str) -> bool:
    try:
        return bool(check_id(name))
    except UsageError:
        return False
