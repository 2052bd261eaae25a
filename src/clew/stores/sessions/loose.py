"""A file anywhere that may hold a conversation: read without a trace, or made where nothing is. It is in no home."""

from collections.abc import Iterator
from pathlib import Path

from clew.disk import files
from clew.disk.renewal import keep_new
from clew.errors import NotFound, Refused


class LooseFile:
    """One file by its path. Looking leaves no trace; nothing that is there is ever changed."""

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        self._path = path

    def read(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes of a range in pieces. `NotFound` (`unknown_session`), `Storage`."""
        if not self._path.is_file():
            raise NotFound(
                f"there is no file {self.place!r}",
                code="unknown_session",
                next="Check the path; a session of this home is named by its id.",
                path=self.place,
            )
        yield from files.pieces(self._path.resolve(), start, end)

    def make(self, data: bytes) -> None:
        """Make it, durably.

        Raises:
            Refused: `file_exists` when something is there. Storage.
        """
        if not keep_new(self._path.absolute(), [data]):
            raise Refused(
                f"there is a file {self.place!r} already",
                code="file_exists",
                next="Name another file; nothing that is there is replaced.",
                path=self.place,
            )
