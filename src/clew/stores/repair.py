"""How a torn end is cut: its bytes are kept beside the journal first. Whether an end is torn is not decided here."""

import re
from hashlib import sha256
from pathlib import Path

from clew.core.codec import MAX_APPEND
from clew.disk import files
from clew.disk.append import AppendFile
from clew.stores.base import Tail, TailRepaired

_KEPT = re.compile(r"torn-(\d+)-[0-9a-f]{12}")


def keep_and_cut(file: AppendFile, folder: Path, tail: Tail, sequence: int) -> tuple[TailRepaired, ...]:
    """Make the end of a journal clean, durably, and name every piece that was ever cut off there.

    A piece that a crash left behind between cutting and recording is named by the next leg, so that no byte is lost
    without a record; which of them are in records already is for the caller to see.

    Args:
        file: The journal, locked and read to `tail`.
        folder: The run's folder; made when there is something to keep.
        tail: Where the good lines end, and how.
        sequence: Of the next record.

    Returns:
        The piece cut now, then those that were kept before at the same byte.

    Source:
        reference/journal.md §2, rules 2 and 6; promise 6.
    """
    cut = ""
    if tail.verdict == "unterminated":
        file.append(b"\n", check_path=True)
    elif tail.verdict == "torn":
        cut = _keep(folder, tail.at_byte, b"".join(file.pieces(tail.at_byte)))
        file.truncate(tail.at_byte)
    names = sorted(name for name in files.list_names(folder) if _offset(name) == tail.at_byte)
    names.sort(key=lambda name: name != cut)
    return tuple(_named(folder, name, tail.at_byte, sequence) for name in names)


def _keep(folder: Path, at_byte: int, data: bytes) -> str:
    name = f"torn-{at_byte}-{sha256(data).hexdigest()[:12]}"
    files.make_folder(folder)
    files.publish(folder / name, data)
    return name


def _offset(name: str) -> int:
    found = _KEPT.fullmatch(name)
    return int(found[1]) if found else -1


def _named(folder: Path, name: str, at_byte: int, sequence: int) -> TailRepaired:
    data = files.read_bytes(folder / name, MAX_APPEND) or b""
    return TailRepaired(sequence, at_byte, len(data), sha256(data).hexdigest(), name)
