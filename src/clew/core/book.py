"""A dictionary with one open page: entries can be tried on a fork and taken over whole, or forgotten. Nothing else."""

from collections.abc import Iterator
from typing import Generic, TypeVar

V = TypeVar("V")


class Book(Generic[V]):
    """Entries by name in the order in which they first came.

    A fork sees the book beneath it and changes nothing there.
    """

    __slots__ = ("_beneath", "_page")

    def __init__(self, beneath: "Book[V] | None" = None) -> None:
        self._page: dict[str, V | None] = {}
        self._beneath = beneath

    def get(self, name: str) -> V | None:
        """The entry, or None when there is none or it was struck out."""
        entry, book = self._page.get(name), self
        if entry is not None or book._beneath is None:
            return entry
        while (entry := book._page.get(name)) is None:
            if name in book._page or book._beneath is None:
                return None
            book = book._beneath
        return entry

    def put(self, name: str, entry: V) -> None:
        """Enter or replace."""
        self._page[name] = entry

    def strike(self, name: str) -> None:
        """Take an entry out; in a fork, until it is merged, it only hides the one beneath."""
        if self._beneath is None:
            self._page.pop(name, None)
        else:
            self._page[name] = None

    def fork(self) -> "Book[V]":
        """A page on top of this book."""
        return Book(self)

    def merge(self, fork: "Book[V]") -> None:
        """Take over what was entered and struck out on a fork of this book, whose page is empty then."""
        page = fork._page
        if not page:
            return
        fork._page = {}
        for name, entry in page.items():
            if entry is None:
                self.strike(name)
            else:
                self._page[name] = entry

    def items(self) -> Iterator[tuple[str, V]]:
        """Names and entries in the order in which they first came."""
        for name in self._names():
            entry = self.get(name)
            if entry is not None:
                yield name, entry

    def _names(self) -> dict[str, None]:
        """Every name of this page and of those beneath it, struck out or not."""
        beneath = {} if self._beneath is None else self._beneath._names()
        return {**beneath, **dict.fromkeys(self._page)}

    def values(self) -> Iterator[V]:
        """Entries in the order in which they first came."""
        return (entry for _, entry in self.items())

    def __bool__(self) -> bool:
        """False when nothing was ever entered; True is no promise that nothing was struck out again."""
        return bool(self._page) or bool(self._beneath)

    def __len__(self) -> int:
        return sum(1 for _ in self.items())
