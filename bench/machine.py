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
        f"file system {file_system(folder).name}",
        f"Python {platform.python_version()}, msgspec {version('msgspec')}, clew {version('clew')}",
        f"load {os.getloadavg()[0]:.1f}",
    )
    return "; ".join(parts)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if sys.platform == "linux" else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
