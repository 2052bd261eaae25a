"""The chain that ties each line of a journal to all lines before it. No line is read or written here."""

from hashlib import sha256


def genesis(run_id: str) -> str:
    """The value that stands before the first line of a run, so that no line can move to another run.

    Source:
        reference/journal.md §1.
    """
    return sha256(b"clew-journal-1:" + run_id.encode()).hexdigest()


def link(previous: str, before: bytes, behind: bytes) -> str:
    """The value of a line: 64 hex digits over the value before it and the line without its member `chain`.

    Args:
        previous: The value of the line before, or `genesis`.
        before: The line up to its member `chain`, the comma not included.
        behind: The rest of the line behind that member, without LF.

    Source:
        reference/journal.md §1.
    """
    return sha256(previous.encode() + before + behind).hexdigest()
