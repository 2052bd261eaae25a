"""`tests/` mirrors `src/clew/` file by file, so that everyone knows where a behaviour is asserted (DESIGN §12)."""

from collections.abc import Iterable

from tests.house.tree import ROOT, SRC, TESTS

KIT = ("appends", "births", "endings", "heads", "holders", "inbox", "poison", "readers", "spoiled")
SESSION_KIT = ("session_births", "session_changes", "session_lines", "session_owners")
# Module without a test file of its own -> why.
UNTESTED = {
    **dict.fromkeys(
        (f"stores/base/{name}.py" for name in ("journals", "kept", "machine", "sessions", "upkeep", "workspace")),
        "protocols only; every store runs the whole conformance kit",
    ),
    "certify/orders.py": "shapes only; every trial sends each of them",
    **dict.fromkeys(
        (f"certify/{name}.py" for name in ("leg", "lives", "server", "standins")),
        "what only real processes show; test_trial lets agents die through each of them",
    ),
    "cli/certifier.py": "the process that test_trial's servers are",
    "cli/root.py": "the name of the command and its help; test_app reads them",
    "core/needs.py": "shapes only; test_effect walks with each of them",
    "core/records.py": "shapes only; test_codec writes and reads each of them",
    "core/session/values.py": "shapes only; the tests beside it make each of them",
    "runtime/childfaults.py": "errors only; test_children meets each of them",
    "runtime/face.py": "what both faces of a run share; test_run asks for each of it",
    "runtime/nursery.py": "a protocol and a shape; test_children asks through them",
    "cli/__main__.py": "one line, walked by every journey",
    **dict.fromkeys(
        (f"testing/cases/{name}.py" for name in KIT), "cases; every store runs them, and test_runstore plants faults"
    ),
    **dict.fromkeys(
        (f"testing/cases/{name}.py" for name in SESSION_KIT), "cases; every store runs them, test_sessionstore plants"
    ),
}
# Test file without a module of its own -> what it tests.
WHOLE = {
    "runtime/test_foreign_runs.py": "a journal that another program began, at every door",
    "runtime/test_attacks_ends.py": "how legs end when something strikes in the wrong moment, over several modules",
    "runtime/test_meetings.py": "approvals, limits, keys, aborts, checks and extensions where they meet",
    "core/test_life.py": "a whole run as a state machine",
    "examples/test_recovery.py": "the example of a write that is refused first, as a whole",
    "stores/test_conformance.py": "every store, every case",
    "stores/test_session_conformance.py": "every session store, every case",
}
# Folders of tests that are about the whole.
APART = ("house/", "journeys/", "cases/", "contract/", "crash/", "fuzz/")


def untested(sources: Iterable[str], tests: Iterable[str]) -> list[str]:
    """The modules that no test file stands for."""
    present = set(tests)
    wanted = (source for source in sources if not source.endswith("__init__.py") and source not in UNTESTED)
    return sorted(source for source in wanted if _mirror(source) not in present)


def unfounded(sources: Iterable[str], tests: Iterable[str]) -> list[str]:
    """The test files that stand for no module."""
    wanted = {_mirror(source) for source in sources} | set(WHOLE)
    ours = (test for test in tests if test.rpartition("/")[2].startswith("test_") and not test.startswith(APART))
    return sorted(set(ours) - wanted)


def _mirror(source: str) -> str:
    folder, _, name = source.rpartition("/")
    return f"{folder}/test_{name}".lstrip("/")


def sources_here() -> list[str]:
    return [path.relative_to(SRC / "clew").as_posix() for path in (SRC / "clew").rglob("*.py")]


def examples_here() -> list[str]:
    return [f"examples/{path.name}" for path in (ROOT / "examples").rglob("*.py")]


def mirrors_here() -> list[str]:
    return [path.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py")]


def test_every_module_has_its_test_file() -> None:
    """A module without one is a promise that nobody checks."""
    found = untested(sources_here(), mirrors_here())

    assert [] == found


def test_every_test_file_has_its_module() -> None:
    """A renamed module must take its tests along; an example's parts are modules too."""
    found = unfounded([*sources_here(), *examples_here()], mirrors_here())

    assert [] == found


def test_the_exceptions_still_exist() -> None:
    """An exception that outlives its file would excuse the next file of that name."""
    stale = [name for name in UNTESTED if name not in sources_here() and name != "cli/__main__.py"]

    assert [] == stale


def test_a_missing_mirror_is_seen() -> None:
    """The first rule can fail."""
    found = untested(["errors.py", "core/canon.py", "core/__init__.py"], ["core/test_canon.py"])

    assert ["errors.py"] == found


def test_an_orphan_is_seen() -> None:
    """The second rule can fail."""
    found = unfounded(["core/canon.py"], ["core/test_canon.py", "core/test_cannon.py", "house/test_x.py", "drafts.py"])

    assert ["core/test_cannon.py"] == found
