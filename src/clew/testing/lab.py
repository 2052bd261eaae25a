"""What the author of any store gives a kit: the store, and what lets a case look behind it. No case belongs here."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Generic, Literal, TypeVar

from clew.testing.kit import CaseFailed, CaseSkipped

Step = Literal["write", "sync"]
S = TypeVar("S")
T = TypeVar("T")


class Lab(Generic[S]):
    """A place for what a store keeps, empty at first. Lives for one case.

    Args:
        store: The store as another process opens it: a new object over the same place each time. A store in the
            memory of one process gives the same object again.
        fail: Within what it gives, the next `write` or the next `sync` fails, as on a dying disk; see `failing_call`.
        elsewhere: Lines of Python that make a `store` over this place in another process, which has the `sys.path`
            of this one.
        cannot: Name of something that is not given -> why this store has nothing of the kind.

    Source:
        DESIGN §3, "a contract is a kit".
    """

    def __init__(
        self, store: Callable[[], S], *, fail: Callable[[Step], AbstractContextManager[None]] | None,
        elsewhere: str | None, cannot: Mapping[str, str] | None,
    ) -> None:  # fmt: skip
        self._store = store
        self._fail = fail
        self._elsewhere = elsewhere
        self._cannot = cannot or {}

    def store(self) -> S:
        """The store as another process opens it."""
        return self._store()

    def fail(self, step: Step) -> AbstractContextManager[None]:
        """Within it, the next write or the next sync fails."""
        return self.given("fail", self._fail)(step)

    def elsewhere(self) -> str:
        """Lines of Python that make a `store` in another process."""
        return self.given("elsewhere", self._elsewhere)

    def given(self, name: str, what: T | None) -> T:
        """What the author gave; a case that needs what he said that he cannot give is skipped, and one fails else."""
        if name in self._cannot:
            raise CaseSkipped(f"this store has no {name!r}: {self._cannot[name]}")
        if what is None:
            raise CaseFailed(f"give the lab its {name!r}, or say in `cannot` why this store has nothing of the kind")
        return what

    @contextmanager
    def process(self, code: str) -> "Iterator[subprocess.Popen[str]]":
        """Another process that has a `store` over the same place; gone at the end, whatever happened."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-c", f"{self.elsewhere()}\n{code}"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, text=True, env=environment, stdin=pipe, stdout=pipe) as started:
            try:
                yield started
            finally:
                started.kill()
