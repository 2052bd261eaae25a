"""What loading an agent's file leaves in this process. Modules of clew that were first needed meanwhile stay."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType


@contextmanager
def taken_away(folder: Path) -> Iterator[None]:
    """When the block ends, the search path is as it was, and modules whose files lie below the folder are unknown."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if _is_from(folder, sys.modules[name]):
            del sys.modules[name]


def _is_from(folder: Path, module: object) -> bool:
    file = getattr(module, "__file__", None)
    # What an agent's file puts there by hand is no module.
    return not isinstance(module, ModuleType) or (isinstance(file, str) and Path(file).is_relative_to(folder))
