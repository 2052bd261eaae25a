"""What the tests of the command share: a folder with an agent, and the command in this process."""

from collections.abc import Callable
from pathlib import Path

import pytest

from clew.cli import main
from tests.cli.shell import Done, Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """The command in this process, for what needs no process of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CLEW_HOME", raising=False)
    monkeypatch.setenv("TZ", "UTC")

    def type_it(*words: str) -> Done:
        capfd.readouterr()
        code = main(words)
        heard = capfd.readouterr()
        return Done(code, heard.out, heard.err)

    return type_it
