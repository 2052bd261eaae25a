"""What it costs to look over a whole workspace, to keep a very large file, and to keep one text again and again."""

import os
import random
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.figures import Figure
from bench.subject import ROOT
from clew.stores.base import COVER_LIMITS, PutBack
from clew.stores.blobs import FileBlobStore
from clew.stores.workspace import FileWorkspace

FILES, FOLDERS, EDITS, MIB = 50_000, 500, 200, 1 << 20
MARK = "abcdefgh234567ab"


def measure(folder: Path) -> list[Figure]:
    """Each in a process of its own, whose memory is told with it."""
    place = folder / "workspaces"
    place.mkdir()
    try:
        return [*_cover(place), *_large(place), _edits(place)]
    finally:
        shutil.rmtree(place)


def _cover(place: Path) -> Iterator[Figure]:
    total = _told("small", place)[0]
    # Times within 20 ms of a look are not believed, and what is still to be written is not part of the look.
    os.sync()
    first, memory, kept = _told("cover", place)
    again, memory_again, _ = _told("cover", place)
    what = f"a look over {FILES:,} small files"
    yield Figure(
        f"{what}, the first, contents kept",
        first,
        "s",
        8.0,
        note=f"{total / MIB:.0f} MiB, {kept / MIB:.0f} MiB stored, one sync",
    )
    yield Figure(f"{what}, nothing changed", again, "s", 2.0)
    yield Figure(f"{what}: memory of the process", max(memory, memory_again) / MIB, "MB", 200)


def _large(place: Path) -> Iterator[Figure]:
    kept_s, kept_memory = _told("keep_large", place)
    back_s, back_memory = _told("put_large_back", place)
    note = f"kept in {kept_s:.1f} s, put back in {back_s:.1f} s, half of it compressible"
    yield Figure(
        "a file of 1 GiB kept and put back: memory of the process",
        max(kept_memory, back_memory) / MIB,
        "MB",
        64,
        note=note,
    )


def _edits(place: Path) -> Figure:
    stored, compressed, contents, size = _told("edits", place)
    note = f"{contents:.0f} contents of {size / MIB:.1f} MiB, {stored / MIB:.1f} MiB on disk; by zlib at level 6"
    return Figure(
        f"{EDITS} edits of one text of 1 MB: stored / their compressed contents",
        stored / compressed,
        gate=1.1,
        note=note,
    )


def _told(name: str, place: Path) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.workspaces", name, str(place)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [float(number) for number in done.stdout.split()]


# In processes of their own; each prints its numbers.


def small(place: Path) -> list[float]:
    """Make the files: four of five are text. Bytes of all."""
    chance, total = random.Random(5), 0
    words = [b"word%d" % number for number in range(3000)]
    for number in range(FOLDERS):
        folder = place / "work" / f"part{number % 20}" / f"package{number}"
        folder.mkdir(parents=True)
        for at in range(FILES // FOLDERS):
            size = chance.randrange(200, 10_000)
            text = b" ".join(chance.choices(words, k=size // 5)) if at % 5 else chance.randbytes(size)
            (folder / f"module{at}.txt").write_bytes(text[:size])
            total += min(size, len(text))
    return [total]


def cover(place: Path) -> list[float]:
    """Look over them: seconds, peak of memory, bytes that are stored."""
    home = place / "home"
    home.mkdir(exist_ok=True)
    since = time.perf_counter()
    found = FileWorkspace(place / "work", home=home).cover(keep=FileBlobStore(home), limits=COVER_LIMITS)
    taken = time.perf_counter() - since
    assert sum(state.kind == "file" for state in found.manifest.values()) == FILES
    return [taken, _peak(), _stored(home)]


def keep_large(place: Path) -> list[float]:
    """Keep 1 GiB: seconds, peak of memory."""
    home, work = place / "large-home", place / "large"
    home.mkdir()
    work.mkdir()
    with (work / "large.bin").open("wb") as file:
        for number in range(1024):
            file.write(os.urandom(MIB) if number % 2 else b"a line of it\n" * 80_660)
            file.truncate(MIB * (number + 1))
            file.seek(0, os.SEEK_END)
    since = time.perf_counter()
    FileWorkspace(work, home=home).stand(["large.bin"], keep=FileBlobStore(home))
    return [time.perf_counter() - since, _peak()]


def put_large_back(place: Path) -> list[float]:
    """Change it, put it back: seconds, peak of memory."""
    home, work = place / "large-home", place / "large"
    blobs, workspace = FileBlobStore(home), FileWorkspace(work, home=home)
    before = workspace.stand(["large.bin"])["large.bin"]
    (work / "large.bin").write_bytes(b"changed")
    after = workspace.stand(["large.bin"])["large.bin"]
    since = time.perf_counter()
    (end,) = workspace.put_back([PutBack("large.bin", after, before)], blobs, mark=MARK)
    assert end.outcome == "restored"
    return [time.perf_counter() - since, _peak()]


def edits(place: Path) -> list[float]:
    """Edit a text and keep it before and after: bytes on disk, of the contents compressed, how many, of one."""
    home, work, chance = place / "edits-home", place / "edits", random.Random(7)
    home.mkdir()
    work.mkdir()
    workspace, blobs = FileWorkspace(work, home=home), FileBlobStore(home)
    lines = [" ".join(f"word{chance.randrange(3000)}" for _ in range(10)) for _ in range(13_500)]
    contents = set[bytes]()
    for _ in range(EDITS):
        for _ in range(2):
            text = "\n".join(lines).encode()
            (work / "text.md").write_bytes(text)
            workspace.stand(["text.md"], keep=blobs)
            contents.add(text)
            lines[chance.randrange(len(lines))] = f"edited {chance.randrange(10**9)}"
    compressed = sum(len(zlib.compress(text, 6)) for text in contents)
    return [_stored(home), compressed, len(contents), len(max(contents, key=len))]


def _stored(home: Path) -> int:
    return sum(path.stat().st_size for path in (home / "blobs").rglob("*") if path.is_file())


def _peak() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


SUBJECTS: dict[str, Callable[[Path], list[float]]] = {
    "small": small, "cover": cover, "keep_large": keep_large, "put_large_back": put_large_back, "edits": edits,
}  # fmt: skip

if __name__ == "__main__":
    print(*SUBJECTS[sys.argv[1]](Path(sys.argv[2])))
