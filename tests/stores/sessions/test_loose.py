"""A file anywhere is read without a trace, and made only where nothing is."""

from pathlib import Path

import pytest

from clew.errors import NotFound, Refused
from clew.stores.sessions.loose import LooseFile


def test_a_range_of_a_file_is_read(tmp_path: Path) -> None:
    """A transcript of gigabytes is never in memory."""
    (tmp_path / "f.jsonl").write_bytes(b"x" * 3_000_000 + b"end")
    file = LooseFile(tmp_path / "f.jsonl")

    assert (3_000_003, b"xend"[1:]) == (sum(map(len, file.read())), b"".join(file.read(3_000_000)))
    assert [b"xx", b""] == [b"".join(file.read(1, 3)), b"".join(file.read(5, 5))]


def test_looking_leaves_no_trace(tmp_path: Path) -> None:
    """It is somebody else's, and may be in use."""
    path = tmp_path / "f.jsonl"
    path.write_bytes(b"x")
    before = path.stat()

    b"".join(LooseFile(path).read())

    after = path.stat()
    assert (before.st_mtime_ns, [path]) == (
        after.st_mtime_ns,
        [*tmp_path.iterdir()],
    )


@pytest.mark.parametrize("name", ["none.jsonl", "."])
def test_what_is_no_file_is_unknown(tmp_path: Path, name: str) -> None:
    """A folder is no conversation."""
    with pytest.raises(NotFound, match="there is no file"):
        b"".join(LooseFile(tmp_path / name).read())


def test_a_file_is_made_where_nothing_is(tmp_path: Path) -> None:
    """What is there is never replaced."""
    file = LooseFile(tmp_path / "new.jsonl")
    file.make(b"one")

    with pytest.raises(Refused) as caught:
        file.make(b"two")

    assert ("file_exists", b"one") == (caught.value.code, (tmp_path / "new.jsonl").read_bytes())
