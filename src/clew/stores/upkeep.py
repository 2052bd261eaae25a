"""Looking after a home: what lies there, what was dropped and when, dropping it. Nothing here decides what may go."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from clew.core.answers import json_text
from clew.core.ids import is_digest
from clew.disk import files, presence
from clew.disk.removal import remove, sizes
from clew.disk.tree import walk
from clew.errors import Corrupt
from clew.stores.base import Leftover, Pruning
from clew.stores.homefile import LOCK, HomeFile
from clew.stores.memory import MemoryBlobStore, MemoryRunStore
from clew.stores.packs import FOLDER as PACKS
from clew.stores.packs import SUFFIX, PackFile, PackWriter, Place, open_pack
from clew.stores.published import decode, encode
from clew.stores.survey import TORN, left_behind

PRUNED: Final = "pruned"
WAIT_S: Final = 2.0
_LIMIT: Final = 1 << 31
_ROW_BYTES: Final = 57
"""What the index of a pack has of each blob in it."""


class FileUpkeep:
    """Looks after a home of files (`stores.base.Upkeep`). Making one touches nothing.

    What is dropped is first named in `blobs/pruned/<n>.json`, published under a number that nobody has. A death behind
    that leaves content that is recorded as pruned and is there all the same: it is read as ever, and goes next time.

    Source:
        DESIGN §4 "Everything else", §7.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._read: tuple[frozenset[str], dict[str, dict[str, str]]] = (frozenset(), {})

    @contextmanager
    def alone(self, said: Mapping[str, Any]) -> Iterator[bool]:
        """Be alone in the home while the block lasts.

        Raises:
            Refused: `home_copied`, `home_layout_unknown`. Corrupt: `home_file_corrupt`. Storage.
        """
        HomeFile(self._root).require_own()
        with presence.alone(self._root / LOCK, json_text(said).encode(), WAIT_S) as is_alone:
            yield is_alone

    def stock(self) -> dict[str, int]:
        """Every blob with its bytes on the disk. One that lies there twice counts twice, for it frees as much."""
        found: dict[str, int] = {}
        for folder in files.list_names(self._blobs()):
            if len(folder) == 2:
                for name, size in sizes(self._blobs(folder)):
                    if is_digest(name):
                        found[name] = found.get(name, 0) + size
        for pack in self._packs():
            for place in pack.places():
                digest = place.digest.hex()
                found[digest] = found.get(digest, 0) + place.stored + _ROW_BYTES
        return found

    def leftovers(self) -> Iterator[Leftover]:
        """Temp files whose process is gone, and all cut ends of journals; a home is walked to its end."""
        for entry in walk(self._root):
            path, place = entry.path, entry.path.relative_to(self._root).parts
            if entry.kind != "file":
                continue
            if files.is_temp(path.name) and left_behind(path.name):
                yield Leftover("/".join(place), "temp", "", entry.size_bytes)
            elif len(place) == 3 and place[0] == "runs" and path.name.startswith(TORN):
                yield Leftover("/".join(place), "torn", place[1], entry.size_bytes)

    def note(self, pruning: Pruning) -> None:
        """Record what is about to go, under the next number."""
        folder = self._blobs(PRUNED)
        for each in (folder.parent, folder):
            files.make_folder(each)
        data, number = encode(pruning) + b"\n", len(files.list_names(folder)) + 1
        while not files.publish_new(folder / f"{number:06}.json", data):
            number += 1

    def drop(self, digests: Collection[str]) -> int:
        """Remove these blobs, alone or out of their packs; a pack that has others is written anew without them."""
        gone, before = frozenset(digests), self._packed_bytes()
        freed = sum(remove(self._blobs(digest[:2]) / digest) for digest in digests)
        for pack in list(self._packs()):
            self._thin(pack, gone)
        return freed + before - self._packed_bytes()

    def clear(self, leftovers: Collection[Leftover]) -> int:
        """Remove these files."""
        return sum(remove(files.below(self._root, *each.name.split("/"))) for each in leftovers)

    def pruned(self, run_id: str) -> Mapping[str, str]:
        """What this run referred to when it was pruned, and when that was.

        Raises:
            Corrupt: `pruned_corrupt`.
        """
        folder = self._blobs(PRUNED)
        names = frozenset(name for name in files.list_names(folder) if not files.is_temp(name))
        if names != self._read[0]:
            found: dict[str, dict[str, str]] = {}
            for name in sorted(names):
                _add(found, _pruning(folder / name))
            self._read = (names, found)
        return self._read[1].get(run_id, {})

    def _thin(self, pack: PackFile, gone: frozenset[str]) -> None:
        """Take blobs out of a pack. One with other blobs that cannot be read stays as it is."""
        places = sorted(pack.places(), key=lambda place: place.start)
        stay = [place for place in places if place.digest.hex() not in gone]
        if len(stay) == len(places):
            return
        if stay:
            writer = PackWriter(pack.path.parent, lambda digest: False)
            try:
                if not all(_copied(writer, pack, place) for place in stay):
                    return
                writer.publish()
            finally:
                writer.discard()
        remove(pack.path)

    def _packed_bytes(self) -> int:
        return sum(size for _, size in sizes(self._blobs(PACKS)))

    def _packs(self) -> Iterator[PackFile]:
        folder = self._blobs(PACKS)
        for name in sorted(files.list_names(folder)):
            pack = open_pack(folder / name) if name.endswith(SUFFIX) else None
            if pack is not None:
                yield pack

    def _blobs(self, *parts: str) -> Path:
        return files.below(self._root, "blobs", *parts)


def _copied(writer: PackWriter, pack: PackFile, place: Place) -> bool:
    """Was the content taken over, and is it what its name says?"""
    try:
        return writer.keep(pack.pieces(place)).sha256 == place.digest.hex()
    except ValueError:
        return False


def _pruning(path: Path) -> Pruning:
    data = files.read_bytes(path, _LIMIT) or b""
    try:
        return decode(data, Pruning)
    except ValueError as error:
        raise Corrupt(
            f"{str(path)!r}: it records no prune: {error}",
            code="pruned_corrupt",
            next="Find out what touched it; without it, what was pruned then counts as missing.",
            path=str(path),
        ) from error


def _add(found: dict[str, dict[str, str]], pruning: Pruning) -> None:
    for each in pruning.drops:
        for run_id in each.runs:
            found.setdefault(run_id, {})[each.sha256] = pruning.at


class MemoryUpkeep:
    """The same for a home in memory (`stores.base.Upkeep`)."""

    def __init__(self, store: MemoryRunStore, blobs: MemoryBlobStore) -> None:
        self._store = store
        self._kept = blobs.kept

    @contextmanager
    def alone(self, said: Mapping[str, Any]) -> Iterator[bool]:
        """Be alone in the home while the block lasts."""
        with self._store.presence.alone(json_text(said).encode()) as is_alone:
            yield is_alone

    def stock(self) -> dict[str, int]:
        """Every blob with its bytes."""
        return {digest: len(data) for digest, data in list(self._kept.items())}

    def leftovers(self) -> Iterator[Leftover]:
        """All cut ends of journals; there are no temp files."""
        for (run_id, name), data in self._store.pieces().items():
            yield Leftover(f"{run_id}/{name}", "torn", run_id, len(data))

    def note(self, pruning: Pruning) -> None:
        """Record what is about to go."""
        _add(self._store.pruned, pruning)

    def drop(self, digests: Collection[str]) -> int:
        """Remove these blobs."""
        return sum(len(self._kept.pop(digest, b"")) for digest in digests)

    def clear(self, leftovers: Collection[Leftover]) -> int:
        """Remove these cut ends."""
        for each in leftovers:
            self._store.forget_piece(each.run, each.name.partition("/")[2])
        return sum(each.stored_bytes for each in leftovers)

    def pruned(self, run_id: str) -> Mapping[str, str]:
        """What this run referred to when it was pruned, and when that was."""
        return self._store.pruned.get(run_id, {})
