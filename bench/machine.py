"""On what it was measured: what a reader must know to compare, and nothing that names the machine or its owner."""

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

from clew.disk.mounts import file_system


def describe(folder: Path) -> str:
    """One line: processor, cores, memory, kernel, file system, versions, and how busy it was."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    parts = (
        f"{_processor()}, {os.cpu_count()} cores, {memory_gib:.0f} GiB",
        f"{platform.system()} {platform.release()}",
        f"file system {_file_system(folder)}",
        f"Python {platform.python_version()}, msgspec {version('msgspec')}, clew {version('clew')}",
        f"load {os.getloadavg()[0]:.1f}",
    )
    return "; ".join(parts)


def _file_system(folder: Path) -> str:
    """Its name; of ext4 whether it has a journal, for with one each append waits for a commit."""
    name, found = file_system(folder).name, folder.stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(found)}:{os.minor(found)}").resolve().name
    journals = Path("/proc/fs/jbd2").glob(f"{device}-*")
    return name if name != "ext4" or any(journals) else "ext4 without a journal"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if sys.platform == "linux" else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
