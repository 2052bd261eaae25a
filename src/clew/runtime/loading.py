"""While an agent's file is loaded no run begins or goes on: loading it is no order. Knows no file and no run."""

import contextlib
from collections.abc import Iterator
from typing import Final

from clew.errors import UsageError

_UNDER_WAY: Final[list[str]] = []


@contextlib.contextmanager
def being_loaded(file: str) -> Iterator[None]:
    """Inside of this block the file is loaded, in this process, to find an agent in it."""
    _UNDER_WAY.append(file)
    try:
        yield
    finally:
        _UNDER_WAY.remove(file)


def check_not_loading() -> None:
    """A file that starts a run when it is loaded would do all of it again at each look and each resume.

    Raises:
        UsageError: `run_while_loading`; nothing was touched.
    """
    if _UNDER_WAY:
        raise UsageError(
            "it starts a run while it is loaded",
            code="run_while_loading",
            next='Put what starts runs under `if __name__ == "__main__":`; the command loads the file for its agent.',
            file=_UNDER_WAY[-1],
        )
