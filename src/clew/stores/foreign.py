"""The runs of another program's home: read, judged and shown; never written, never locked."""

from pathlib import Path
from typing import Any

from clew.core.ids import check_id
from clew.core.records import Batch, Head
from clew.errors import Refused
from clew.stores.base import Command, CommandAnswer, Proof, Tail, TailRepaired
from clew.stores.jsonl import FileRunStore
from clew.stores.scan import JournalReading
from clew.stores.sessions.files import FileSessionStore

FOLDER = ".coremind"


def is_foreign(root: Path) -> bool:
    """Is this folder, or what a link of this name leads to, the home of CoreMind?"""
    return FOLDER in (root.name.casefold(), root.resolve().name.casefold())


class ForeignRunStore(FileRunStore):
    """The runs below `.coremind`: every door that looks is open, every door that writes is refused.

    Source:
        DESIGN §4: "`.coremind/` opens read-only".
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._place = str(root)

    def create(self, run_id: str, batch: Batch, *, wait_s: float = 0.0) -> Any:
        """`Refused` (`foreign_home`)."""
        raise foreign_home(self._place, check_id(run_id))

    def open(self, run_id: str, *, wait_s: float = 2.0, ignore_head: bool = False) -> Any:
        """A writer that reads, takes no lock and refuses to write: what follows judges the run before it would.

        Raises:
            NotFound: `unknown_run`. Corrupt: as `read`.
        """
        return ForeignRunWriter(self._place, run_id, self)

    def post(self, command: Command) -> None:
        """`Refused` (`foreign_home`)."""
        raise foreign_home(self._place, command.run_id)

    def answer(self, run_id: str, answer: CommandAnswer) -> None:
        """`Refused` (`foreign_home`)."""
        raise foreign_home(self._place, run_id)


class ForeignSessionStore(FileSessionStore):
    """The sessions below `.coremind`: read and judged; every door that writes is refused."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._place = str(root)

    def create(self, session_id: str, data: bytes) -> Any:
        """`Refused` (`foreign_home`)."""
        raise foreign_home(self._place, check_id(session_id, "session"))

    def open(self, session_id: str, *, wait_s: float = 2.0) -> Any:
        """`NotFound` (`unknown_session`), else `Refused` (`foreign_home`)."""
        self.size_bytes(session_id)
        raise foreign_home(self._place, session_id)


class ForeignRunWriter:
    """A run writer (`stores.base.RunWriter`) that writes nothing; it holds no lock and has nothing to close."""

    poisoned = True

    def __init__(self, place: str, run_id: str, store: FileRunStore) -> None:
        self.run_id = run_id
        self.size_bytes = store.size_bytes(run_id)
        self._place = place
        self._store = store

    def read(self) -> JournalReading:
        """As any reader."""
        return self._store.read(self.run_id)

    def prove(self, owner: dict[str, Any]) -> tuple[Proof, ...]:
        """`Refused` (`foreign_home`): without the lock nothing can be proven."""
        raise foreign_home(self._place, self.run_id)

    def repair(self, tail: Tail, sequence: int) -> tuple[TailRepaired, ...]:
        """`Refused` (`foreign_home`)."""
        raise foreign_home(self._place, self.run_id)

    def adopt(self, sequence: int, chain: str) -> None:
        """`Refused` (`foreign_home`)."""
        raise foreign_home(self._place, self.run_id)

    def append(self, batch: Batch, *, starts_effect: bool = False) -> int:
        """`Refused` (`foreign_home`)."""
        raise foreign_home(self._place, self.run_id)

    def publish_head(self, head: Head) -> None:
        """`Refused` (`foreign_home`)."""
        raise foreign_home(self._place, self.run_id)

    def close(self) -> None:
        """Nothing is held."""


def foreign_home(place: str, run_id: str) -> Refused:
    """Something was to be written where another program keeps its runs."""
    return Refused(
        f"{place!r} is the home of CoreMind; clew reads it and writes nothing there",
        code="foreign_home",
        next="Continue its runs with CoreMind; for new ones leave --home out, or name a folder called .clew.",
        path=place,
        run=run_id,
    )
