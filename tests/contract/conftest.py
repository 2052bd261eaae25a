"""What the tests of the contract share: a folder with an agent in it, in which somebody types."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.hostile import Door, Place
from tests.loaded import taken_away


@pytest.fixture(scope="session")
def door() -> Iterator[Door]:
    """One process that forks for all tests of a worker."""
    opened = Door()
    yield opened
    opened.close()


@pytest.fixture
def place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], door: Door
) -> Iterator[Place]:
    """An empty folder with the agent of `tests.cli.shell`; what loading it leaves in this process is taken away."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CLEW_HOME", raising=False)
    monkeypatch.setenv("TZ", "UTC")
    with taken_away(tmp_path):
        yield Place(tmp_path, capfd, door)
