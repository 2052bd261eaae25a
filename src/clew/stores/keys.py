"""Claims on business keys, one small file each, and the same in memory. What a claim is worth is not known here.

A claim is `keys/ab/<SHA-256 of the key>-<16 digits of the tool's>-<n>.json`, published under a number that nobody has:
exclusive temp file, write, sync, no-replace link, folder sync. It is on disk before the start that it stands for is
appended. A takeover is the next number, so of any number of processes one wins it, and no file is ever replaced or
deleted. The states that a crash can leave:

* a temp file beside the claims: nobody reads it;
* a claim, and no start in its run's journal: worth nothing once the leg that claimed is over (`core.keys.judge`);
* a claim whose name was not synced yet: another process may see it, and a power cut may take it back. Whoever sees it
  either refuses, or publishes the next number into the same folder, whose sync keeps both; its owner starts nothing
  before its own sync has returned;
* a start and no claim: only where claims were removed by hand. Without `keys/index.json`, which is published when all
  journals have been read, nothing with a key starts.
"""

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from clew.core.keys import Claim
from clew.disk import files
from clew.errors import Corrupt
from clew.stores.homefile import HomeFile
from clew.stores.published import decode, encode

_LIMIT = 1 << 20
_MARK = "index.json"
_SUFFIX = ".json"


class Mark(msgspec.Struct, frozen=True, rename="camel"):
    """The content of `keys/index.json`: which index this is, and since when it is complete."""

    schema_version: Literal[1]
    mark: str
    at: str


def _key_name(sha256: str, tool: str) -> str:
    return f"{sha256}-{hashlib.sha256(tool.encode()).hexdigest()[:16]}"


class FileKeyIndex:
    """The claims of one home (`stores.base.KeyIndex`). Making one touches nothing; looking leaves no trace.

    Source:
        DESIGN §4 "Everything else".
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._home = HomeFile(root)
        self._made: set[str] = set()

    def mark(self) -> str:
        """Which index this is; empty when nobody has said that it is complete. `Corrupt` (`key_index_corrupt`)."""
        path = self._folder() / _MARK
        data = files.read_bytes(path, _LIMIT)
        try:
            return "" if data is None else decode(data, Mark).mark
        except ValueError as error:
            raise Corrupt(
                f"{str(path)!r}: it marks no index: {error}",
                code="key_index_corrupt",
                next="Remove this file, then build the index anew from the journals: `clew find --rebuild`.",
                path=str(path),
            ) from error

    def complete(self, mark: str, at: str) -> None:
        """Say that the index is complete; the first who says so is heard."""
        self._home.require_own()
        files.make_folder(self._folder())
        files.publish_new(self._folder() / _MARK, encode(Mark(1, mark, at)) + b"\n")

    def last(self, sha256: str, tool: str) -> tuple[int, Claim] | None:
        """The last claim on a key and its number; looks at two names where there is one claim."""
        return self._last(_key_name(sha256, tool))

    def take(self, number: int, claim: Claim) -> bool:
        """Publish a claim under the next number: two syncs, and up to two more where its folder is met first.

        Raises:
            Refused: `home_copied`, `home_layout_unknown`. Storage.
        """
        self._home.require_own()
        name = _key_name(claim.sha256, claim.tool)
        folder = self._folder(name[:2])
        for each in (folder.parent, folder):
            if each.name not in self._made or files.mode_of(each) is None:
                files.make_folder(each)
                self._made.add(each.name)
        return files.publish_new(folder / f"{name}-{number}{_SUFFIX}", encode(claim) + b"\n")

    def of_key(self, sha256: str) -> list[Claim]:
        """The last claim on a key for each tool; lists one folder of 256."""
        names = {name.rpartition("-")[0] for name in self._names(sha256[:2]) if name.startswith(f"{sha256}-")}
        return sorted(self._lasts(names), key=lambda claim: claim.tool)

    def claims(self) -> Iterator[Claim]:
        """The last claim on every key, folder by folder."""
        for prefix in sorted(files.list_names(self._folder())):
            if len(prefix) == 2:
                yield from self._lasts({name.rpartition("-")[0] for name in self._names(prefix)})

    def _lasts(self, names: set[str]) -> Iterator[Claim]:
        for name in sorted(names):
            found = self._last(name)
            if found is not None:
                yield found[1]

    def _names(self, prefix: str) -> list[str]:
        names = files.list_names(self._folder(prefix))
        return [name for name in names if name.endswith(_SUFFIX) and not files.is_temp(name)]

    def _last(self, name: str) -> tuple[int, Claim] | None:
        number = self._last_number(name)
        if number == 0:
            return None
        path = self._path(name, number)
        data = files.read_bytes(path, _LIMIT) or b""
        try:
            claim = decode(data, Claim)
        except ValueError as error:
            raise _corrupt(path, f"it holds no claim: {error}") from error
        if _key_name(claim.sha256, claim.tool) != name:
            raise _corrupt(path, "it holds the claim of another key")
        return number, claim

    def _last_number(self, name: str) -> int:
        """Numbers are given without a gap, so the last one is found by doubling and halving."""
        low, high = 0, 1
        while self._is_there(name, high):
            low, high = high, high * 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._is_there(name, middle) else (low, middle)
        return low

    def _is_there(self, name: str, number: int) -> bool:
        return files.size_of(self._path(name, number)) is not None

    def _path(self, name: str, number: int) -> Path:
        return self._folder(name[:2]) / f"{name}-{number}{_SUFFIX}"

    def _folder(self, *below: str) -> Path:
        return files.below(self._root, "keys", *below)


def _corrupt(path: Path, why: str) -> Corrupt:
    """Who has the key cannot be told by this file; the journals know."""
    return Corrupt(
        f"{str(path)!r}: {why}",
        code="key_claim_corrupt",
        next=f"Stop the runs of this home, move all files of this key away ({path.name.rpartition('-')[0]}-*.json), "
        "then `clew find --rebuild`.",
        path=str(path),
        why=why,
    )


class MemoryKeyIndex:
    """The same (`stores.base.KeyIndex`) for as long as this process lives: complete from the beginning."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], list[Claim]] = {}
        self._mark = "memory"
        self._turn = threading.Lock()

    def mark(self) -> str:
        """Which index this is."""
        return self._mark

    def complete(self, mark: str, at: str) -> None:
        """It is."""

    def last(self, sha256: str, tool: str) -> tuple[int, Claim] | None:
        """The last claim on a key and its number."""
        found = self._claims.get((sha256, tool))
        return (len(found), found[-1]) if found else None

    def take(self, number: int, claim: Claim) -> bool:
        """Add a claim under the next number; False when that number is given."""
        with self._turn:
            found = self._claims.setdefault((claim.sha256, claim.tool), [])
            if number <= len(found):
                return False
            assert number == len(found) + 1, "numbers have no gap"
            found.append(claim)
            return True

    def of_key(self, sha256: str) -> list[Claim]:
        """The last claim on a key for each tool."""
        found = [claims[-1] for (digest, _), claims in list(self._claims.items()) if digest == sha256]
        return sorted(found, key=lambda claim: claim.tool)

    def claims(self) -> Iterator[Claim]:
        """The last claim on every key."""
        return (claims[-1] for claims in list(self._claims.values()))
