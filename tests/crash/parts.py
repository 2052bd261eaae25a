"""What was promised, and the parts of a home that are judged by themselves. How each of them is judged is elsewhere."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from clew.errors import ClewError
from tests.crash.telling import Fact

Complaints = Iterator[str]
BESIDE: Final = "../"
"""So begin the paths, relative to the home, of what lies beside it."""


class Promises:
    """What was told so far: `kept` facts by kind, and which records may be found of each run.

    `judged` are facts of the same kind about what judging itself appended. `may`: what may be found of each thing
    whose content changes, by its kind and its name; None is nothing.
    """

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self.kept: dict[str, dict[tuple[Any, ...], Any]] = {}
        self.chains: dict[str, dict[int, set[str]]] = {}
        self.may: dict[tuple[str, str], set[str | None]] = {}
        self.counts: Counter[str] = Counter()
        self.judged: list[Fact] = []
        for word, kind, *rest in facts:
            self.counts[kind] += 1
            if kind in _CHANGING:
                self._change(word, kind, *rest)
                continue
            (self._keep if word == "kept" else self._foresee)(kind, rest)

    def mark(self, kinds: Iterable[str]) -> int:
        """How many facts of these kinds were told: the same number, the same facts."""
        return sum(self.counts[kind] for kind in kinds)

    def _keep(self, kind: str, rest: list[Any]) -> None:
        split = _KEY_SIZE.get(kind, len(rest))
        # What is told later of the same thing is told of more.
        self.kept.setdefault(kind, {})[tuple(rest[:split])] = rest[split:]

    def _change(self, word: str, kind: str, name: str, found: str | None) -> None:
        known = self.may.setdefault((kind, name), {None})
        if word == "kept":
            known.clear()
        known.add(found)

    def of(self, kind: str) -> dict[str, set[str | None]]:
        """What may be found of each thing of a kind, by its name."""
        return {name: found for (its, name), found in self.may.items() if its == kind}

    def _foresee(self, kind: str, rest: list[Any]) -> None:
        if kind == "append":
            run_id, first, last, chains = rest
            for sequence, chain in zip(range(first, last + 1), chains, strict=True):
                self.chains.setdefault(run_id, {}).setdefault(sequence, set()).add(chain)


_KEY_SIZE = {"append": 1, "head": 1, "answer": 2}
_CHANGING: Final = frozenset({"file", "session"})


class Part(NamedTuple):
    """What can be judged by itself: the verdict on it depends on these files and on these kinds of promise alone."""

    name: str
    below: tuple[str, ...]
    kinds: tuple[str, ...]
    deed: Callable[[Path, Promises], Complaints]

    def has(self, path: str) -> bool:
        """Does it read this path, which is relative to the home?"""
        return path.startswith(self.below)

    def judge(self, root: Path, promises: Promises) -> list[str]:
        """Recover it, and say what was not as it must be; nothing, when all was."""
        return list(_each(root, promises, self.deed))


def _each(root: Path, promises: Promises, deed: Callable[[Path, Promises], Complaints]) -> Complaints:
    """A refusal by clew, or any other exception, is a complaint like others."""
    try:
        yield from deed(root, promises)
    except ClewError as fault:
        yield f"refused: {fault.code}: {fault.message}"
    except Exception as fault:
        yield f"raw: {deed.__name__}: {fault!r}"
