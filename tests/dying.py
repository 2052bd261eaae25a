"""A file system whose device refuses writes at some point: ext4 on a loop device on a small tmpfs, for root alone."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_MAKE = (
    "mount -t tmpfs -o size=12m tmpfs {0}/small",
    "truncate -s 64M {0}/small/device",
    "mkfs.ext4 -q -J size=4 -N 512 {0}/small/device",
    "mount -o loop {0}/small/device {0}/mounted",
)


class Device:
    """What is mounted at `mounted`, and the little room below it."""

    def __init__(self, folder: Path) -> None:
        self.mounted = folder / "mounted"
        self._folder = folder
        self._filler = folder / "small" / "filler"

    def starve(self, room: int) -> None:
        """Take all that is left of the device but so many bytes, to the next 4 KiB; blocks that it has it keeps."""
        subprocess.run(f"sync -f {self.mounted}", shell=True, check=True)
        free = int(subprocess.check_output(("stat", "-f", "-c", "%a %S", str(self._filler.parent))).split()[0]) * 4096
        with self._filler.open("wb") as file:
            while free > room:
                file.write(bytes(min(free - room, 1 << 20)))
                free -= min(free - room, 1 << 20)

    def again(self) -> None:
        """The same device after its machine started anew, with room: nothing is in the cache any more."""
        self._filler.unlink(missing_ok=True)
        self._run(f"umount {self.mounted}", _MAKE[-1])

    def _run(self, *steps: str) -> None:
        done = subprocess.run(" && ".join(steps).format(self._folder), shell=True, check=False, capture_output=True)
        if done.returncode:
            pytest.skip(f"a loop device can be mounted by root only: {done.stderr.decode()}")


@contextmanager
def dying(folder: Path) -> Iterator[Device]:
    """One, below this folder; 12 MiB are really there of the 64 it says."""
    for name in ("small", "mounted"):
        (folder / name).mkdir(parents=True)
    device = Device(folder)
    try:
        device._run(*_MAKE)
        yield device
    finally:
        # Lazily: a test that failed may have left a file open there.
        gone = f"umount -l {folder}/mounted; umount -l {folder}/small"
        subprocess.run(gone, shell=True, check=False, capture_output=True)
