"""What the tests of the reported cases share: a folder with an agent, and the command in this process."""

from tests.cli.conftest import shell, typed

__all__ = ["shell", "typed"]
