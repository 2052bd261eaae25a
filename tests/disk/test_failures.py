"""How refusals of the operating system are told."""

import errno
from pathlib import Path

import pytest

from clew.disk.failures import barrier_failed, failure, no_room_left
from clew.errors import Refused, Storage

PATH = Path("runs/r1.jsonl")


@pytest.mark.parametrize(
    ("number", "family", "code"),
    [
        (errno.ENOSPC, Storage, "disk_full"),
        (errno.EDQUOT, Storage, "disk_full"),
        (errno.EACCES, Storage, "storage_denied"),
        (errno.EPERM, Storage, "storage_denied"),
        (errno.EROFS, Storage, "storage_denied"),
        (errno.EIO, Storage, "run_state_failed"),
        (errno.EMFILE, Storage, "run_state_failed"),
        (errno.ELOOP, Refused, "home_link_refused"),
    ],
)
def test_each_refusal_has_its_code(number: int, family: type, code: str) -> None:
    """By the code a program knows whose move it is: free space, give rights, or look at the disk."""
    error = failure(OSError(number, "words"), PATH, "write")

    assert (type(error), error.code, error.facts["path"]) == (family, code, str(PATH))


def test_a_refusal_names_path_and_errno() -> None:
    """Both are what an operator looks for first."""
    error = failure(OSError(errno.EIO, "Input/output error"), PATH, "append to")

    assert str(error) == "cannot append to 'runs/r1.jsonl': EIO, Input/output error"


def test_a_failed_sync_has_one_code_whatever_the_cause() -> None:
    """A full disk that shows at the sync is not a full disk that refused the write: the record may be there."""
    error = barrier_failed(OSError(errno.ENOSPC, "words"), PATH)

    assert (error.code, error.facts["errno"]) == ("durability_barrier_failed", "ENOSPC")


def test_an_unknown_number_is_told_as_such() -> None:
    """A missing name must not hide the error behind a KeyError."""
    error = failure(OSError("only words"), PATH, "read")

    assert error.facts["errno"] == "None"


def test_a_disk_with_room_is_not_called_full(tmp_path: Path) -> None:
    """A short write has other causes: a limit of the process, a signal."""
    assert no_room_left(tmp_path) is False
