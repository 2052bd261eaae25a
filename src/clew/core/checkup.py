"""What is found out about a home and its machine, as values. How it is looked up and how it is judged is not here."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

KEPT: Final = 5
"""So many examples of a kind are kept; the rest is counted."""


class Some(msgspec.Struct, frozen=True, rename="camel"):
    """How many there are of a kind, and the first of them: bounded, whatever a home holds."""

    count: int = 0
    first: tuple[dict[str, Any], ...] = ()

    def plus(self, **one: Any) -> "Some":
        """One more of them."""
        return Some(self.count + 1, (*self.first, one) if self.count < KEPT else self.first)

    @classmethod
    def of(cls, ones: Iterable[dict[str, Any]]) -> "Some":
        """All of these, the first of them kept."""
        found = cls()
        for one in ones:
            found = found.plus(**one)
        return found


class Volume(msgspec.Struct, frozen=True, rename="camel"):
    """The file system under a home. `local` is None for a kind that is not known; counts are None where it has none.

    `undone`: libraries in this process that make a sync do nothing.
    """

    kind: str
    local: bool | None
    options: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()
    free_bytes: int | None = None
    total_bytes: int | None = None
    free_inodes: int | None = None
    total_inodes: int | None = None
    writable: bool = True


class Survey(msgspec.Struct, frozen=True, rename="camel"):
    """What a store sees of its own folder without opening a journal.

    Attributes:
        path: The home.
        volume: The file system under it; None for a home in memory.
        standing: What `home.json` says: own, copy, unmarked, missing, unknown_layout, corrupt; `foreign` in another
            program's home, empty in memory.
        why: What is wrong with `home.json`.
        exit: The exit code of the error that looking at `home.json` met, if it did; then `standing` is `unreadable`.
        ignored: Is there a `.gitignore`?
        left_behind: Temp files of processes that are gone: members `path`.
        too_open: What others than the owner may open: members `path` and `mode`.
        denied: Folders that this user cannot look into: members `path`.
        links: Links below the home, which no writer follows: members `path`.
        misplaced: What is not what its place is for: members `path`, `kind` (file, folder, other) and `wanted` (file,
            folder, empty where nothing of ours belongs).
        pieces: Cut ends that are kept: members `run` and `name`.
        commands: Commands without an answer: members `run`, `id` and `type`.
        strange_commands: Files in an inbox that hold no command: members `path`.
        whole: Was everything looked at, or were there too many files?
        sizes: To each folder of the home (`runs`, `blobs`, `sessions`, `keys`) how many files are in it and how many
            bytes they have; to `journals` the same of the journals alone.
    """

    path: str
    volume: Volume | None = None
    standing: str = ""
    why: str = ""
    exit: int = 0
    ignored: bool = True
    left_behind: Some = Some()
    too_open: Some = Some()
    denied: Some = Some()
    links: Some = Some()
    misplaced: Some = Some()
    pieces: tuple[dict[str, str], ...] = ()
    commands: tuple[dict[str, str], ...] = ()
    strange_commands: Some = Some()
    whole: bool = True
    sizes: dict[str, tuple[int, int]] = {}


class Talks(msgspec.Struct, frozen=True, rename="camel"):
    """What is known of the sessions of a home, each read to its end.

    Attributes:
        sessions: How many there are.
        orphan_calls: Calls without a result in all of them: whether they took effect is unknown.
        orphaned: The sessions that have such calls: members `session`, `calls`, and of the first `tool` and `line`.
        unreadable: Members `session` (empty when they cannot be listed), `code`, `message`, `exit`; `worst_exit` is the
            highest of all.
    """

    sessions: int = 0
    orphan_calls: int = 0
    orphaned: Some = Some()
    unreadable: Some = Some()
    worst_exit: int = 0


class Checkup(msgspec.Struct, frozen=True, rename="camel"):
    """Everything that a doctor goes by: the folder, the machine, the runs, one agent's tools.

    Attributes:
        survey: The folder.
        now_ms: The clock, milliseconds since 1970.
        monotonic: Does the clock that measures durations go forward?
        newest: The latest time in any journal (text), and the run that has it.
        versions: Of clew, Python and msgspec.
        runs: How many there are.
        believed: Of so many, which have ended, only the head was read.
        alive: So many are being run now.
        unreadable: Members `run` (empty when the runs cannot be listed), `code`, `message`, `next`, `line`, `byte`,
            `exit`; `worst_exit` is the highest of all.
        gone: Left open by a process that is gone: `run`, `pid`, `host`.
        stopped: Left open by a process that is stopped: the same.
        elsewhere: Left open by a process that cannot be looked at from here: the same, and `nonce`.
        torn: Journals with a torn end, which the next leg mends: `run`.
        uncertain: Runs with an effect that nobody can vouch for: `run`, `effects`, `tool`, `step`, `settle`.
        unnamed: Kept pieces that no record names: `run`, `name`.
        waiting: Commands to runs that nobody runs: `run`, `id`, `type`.
        undeclared: Tools that say nothing of their effect: `tool`, `run` (empty for those of the agent).
        talks: The sessions.
    """

    survey: Survey
    now_ms: int
    monotonic: bool = True
    newest: str = ""
    newest_run: str = ""
    versions: dict[str, str] = {}
    runs: int = 0
    believed: int = 0
    alive: int = 0
    unreadable: Some = Some()
    worst_exit: int = 0
    gone: Some = Some()
    stopped: Some = Some()
    elsewhere: Some = Some()
    torn: Some = Some()
    uncertain: Some = Some()
    unnamed: Some = Some()
    waiting: Some = Some()
    undeclared: Some = Some()
    talks: Talks = Talks()
