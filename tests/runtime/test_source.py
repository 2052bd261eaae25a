"""Where an agent is written: its path follows every link as of now, and its digest is kept only while that is safe."""

import hashlib
import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import clew
from clew.runtime.source import KNOWN, SETTLED_S, Sources, relative
from clew.testing import failing_call
from clew.testing.clock import SetClock
from tests.runtime.stage import Bank, payer

TEXT = "def orders_agent(run, prompt): pass\n"
links = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def sources(clock: SetClock) -> Sources:
    return Sources(clock)


def written(path: Path, at: str | None = None) -> clew.Agent:
    """An agent out of a file that is written for it; `at` is what Python was told the file is called."""
    path.write_text(TEXT)
    namespace: dict[str, Any] = {}
    exec(TEXT, namespace)
    body = namespace["orders_agent"]
    body.__code__ = body.__code__.replace(co_filename=str(path) if at is None else at)
    return clew.Agent(body)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def known(sources: Sources, agent: clew.Agent, clock: SetClock) -> None:
    """Looked at twice, far enough from one another: its digest is kept."""
    for _ in range(2):
        clock.advance(1)
        sources.of(agent, Path())


def is_read(sources: Sources, agent: clew.Agent) -> bool:
    """Would the file be read now? Where it cannot be, there is no digest."""
    with failing_call("open"):
        return sources.of(agent, Path()).digest == ""


# Its place.


def test_an_agent_is_found_again_by_its_file_and_name(sources: Sources, tmp_path: Path) -> None:
    """Relative to the home's parent, so that the folder can move; by its whole path elsewhere."""
    agent = payer(Bank().tool())
    here = Path(__file__).resolve().parent

    assert "stage.py:payer.<locals>.orders_agent" == sources.of(agent, here).path
    assert (here / "stage.py").as_posix() == sources.of(agent, tmp_path).path.partition(":")[0]


@pytest.mark.parametrize("name", ["<stdin>", "gone.py", "a\0b", ""])
def test_an_agent_without_a_file_is_recorded_as_such(sources: Sources, tmp_path: Path, name: str) -> None:
    """What was typed at a prompt has no place to be found again, and no digest."""
    agent = written(tmp_path / "agent.py", name)

    assert ("", "") == (sources.of(agent, Path()).path, sources.of(agent, Path()).digest)


def test_a_folder_is_no_file_of_an_agent(sources: Sources, tmp_path: Path) -> None:
    """Nor is a pipe, which would never end: only what can be read again is recorded."""
    agent = written(tmp_path / "agent.py", str(tmp_path))

    assert ("", "") == (sources.of(agent, tmp_path).path, sources.of(agent, tmp_path).digest)


def test_an_agent_that_is_no_function_is_recorded_as_such(sources: Sources) -> None:
    """An object with `__call__` has no source of its own to be found."""

    class Caller:
        __name__ = "orders"

        def __call__(self, run: Any, prompt: Any) -> None: ...

    found = sources.of(clew.Agent(Caller()), Path())

    assert ("", "") == (found.path, found.digest)


def test_a_method_is_found_in_the_file_of_its_class(sources: Sources) -> None:
    """An agent may be a method of an object that holds its tools."""
    here = Path(__file__).resolve()

    found = sources.of(clew.Agent(Shop().agent), here.parent)

    assert ("test_source.py:Shop.agent", hashlib.sha256(here.read_bytes()).hexdigest()) == (found.path, found.digest)


class Shop:
    def agent(self, run: Any, prompt: Any) -> None: ...


@pytest.mark.parametrize(("path", "told"), [("home/a/b", "a/b"), ("home", "."), ("other", None)])
@pytest.mark.parametrize("are_there", [False, True])
def test_a_path_is_recorded_relative_where_it_can_be(
    tmp_path: Path, path: str, told: str | None, are_there: bool
) -> None:
    """`/` on every system, so that a journal reads the same everywhere."""
    if are_there:
        (tmp_path / "home" / "a" / "b").mkdir(parents=True)
        (tmp_path / "other").mkdir()

    assert (told or (tmp_path / "other").as_posix()) == relative(tmp_path / path, tmp_path / "home")


def test_a_path_with_a_way_up_in_it_is_recorded_without(tmp_path: Path) -> None:
    """Two spellings of one place must read as one."""
    (tmp_path / "home" / "a").mkdir(parents=True)

    assert "a" == relative(tmp_path / "home" / ".." / "home" / "a", tmp_path / "home")
    assert "a" == relative(tmp_path / "home" / "a", tmp_path / "home" / "a" / "..")


def test_a_relative_path_is_taken_from_the_current_folder_of_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tools may change it between two runs."""
    told = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "agent.py").write_text(TEXT)
        monkeypatch.chdir(tmp_path / folder)
        told.append(relative(Path("agent.py"), tmp_path))

    assert ["a/agent.py", "b/agent.py"] == told


@links
@pytest.mark.parametrize("deed", ["the link leads elsewhere", "the folder moves", "a folder becomes a link"])
def test_a_place_that_moved_since_the_last_run_is_recorded_where_it_is(
    sources: Sources, clock: SetClock, tmp_path: Path, deed: str
) -> None:
    """Releases are hard links of one another, and a link is moved: the old folder is gone when the run is resumed."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "now").symlink_to("one")
    at = tmp_path / ("one" if deed == "a folder becomes a link" else "now") / "agent.py"
    agent = written(tmp_path / "one" / "agent.py", str(at))
    os.link(tmp_path / "one" / "agent.py", tmp_path / "two" / "agent.py")
    known(sources, agent, clock)
    before = sources.of(agent, tmp_path).path
    if deed == "the folder moves":
        (tmp_path / "one").rename(tmp_path / "three")
    if deed == "a folder becomes a link":
        (tmp_path / "one").rename(tmp_path / "three")
        (tmp_path / "one").symlink_to("three")
    else:
        (tmp_path / "now").unlink()
        (tmp_path / "now").symlink_to("three" if deed == "the folder moves" else "two")

    after = sources.of(agent, tmp_path).path

    now = "two" if deed == "the link leads elsewhere" else "three"
    assert ("one/agent.py:orders_agent", f"{now}/agent.py:orders_agent") == (before, after)


@links
def test_a_base_that_moved_since_the_last_run_is_looked_up_again(tmp_path: Path) -> None:
    """The home may be a link, and may be led elsewhere while a process lives."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "agent.py").write_text(TEXT)
    told = []
    for name in ("one", "two"):
        (tmp_path / "now").unlink(missing_ok=True)
        (tmp_path / "now").symlink_to(name)
        told.append(relative(tmp_path / "one" / "agent.py", tmp_path / "now"))

    assert ["agent.py", (tmp_path / "one" / "agent.py").resolve().as_posix()] == told


# Its digest.


def test_a_file_that_stands_as_it_did_is_read_no_more(sources: Sources, clock: SetClock, tmp_path: Path) -> None:
    """A thousand runs of one agent would read it a thousand times."""
    agent = written(tmp_path / "agent.py")
    known(sources, agent, clock)

    assert not is_read(sources, agent)
    assert sha256(TEXT) == sources.of(agent, Path()).digest


@pytest.mark.parametrize("waits_s", [0.0, SETTLED_S])
def test_a_file_is_read_again_as_long_as_it_may_have_changed_and_look_the_same(
    sources: Sources, clock: SetClock, tmp_path: Path, waits_s: float
) -> None:
    """DESIGN's rule for what is unchanged: within one tick of the clock nothing can be told from its times."""
    agent = written(tmp_path / "agent.py")
    for _ in range(2):
        sources.of(agent, Path())
        clock.advance(waits_s)
        waits_s = 0.0

    assert is_read(sources, agent)


def test_what_was_read_before_it_had_stood_long_enough_is_not_kept(
    sources: Sources, clock: SetClock, tmp_path: Path
) -> None:
    """It may have changed right behind that reading, in the same tick: time that passes later proves nothing of it."""
    agent = written(tmp_path / "agent.py")
    sources.of(agent, Path())
    clock.advance(1)

    assert is_read(sources, agent)


def rewritten(path: Path) -> None:
    """With the old time of its content; done again until the clock of the files has gone on by a tick."""
    found = path.stat()
    while path.stat().st_ctime_ns == found.st_ctime_ns:
        path.write_text(TEXT.replace("pass", "None"))
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def replaced(path: Path) -> None:
    other(path).replace(path)


def led_elsewhere(path: Path) -> None:
    beside = other(path)
    path.unlink()
    path.symlink_to(beside)


def other(path: Path) -> Path:
    beside = path.with_name("other.py")
    beside.write_bytes(path.read_bytes())
    rewritten(beside)
    return beside


@links
@pytest.mark.parametrize("deed", [rewritten, replaced, led_elsewhere])
def test_a_file_that_changed_is_read_again(
    sources: Sources, clock: SetClock, tmp_path: Path, deed: Callable[[Path], None]
) -> None:
    """Of the same length, and with the old time of its content: the time of change tells."""
    agent = written(tmp_path / "agent.py")
    known(sources, agent, clock)
    deed(tmp_path / "agent.py")

    assert sha256(TEXT.replace("pass", "None")) == sources.of(agent, Path()).digest
    assert is_read(sources, agent), "and it must stand for a while again"


def test_a_file_that_is_gone_leaves_nothing_kept(sources: Sources, clock: SetClock, tmp_path: Path) -> None:
    """A path that leads nowhere must not be recorded as if it led somewhere."""
    agent = written(tmp_path / "agent.py")
    known(sources, agent, clock)
    (tmp_path / "agent.py").unlink()

    assert ("", "") == (sources.of(agent, Path()).path, sources.of(agent, Path()).digest)


def test_a_file_that_cannot_be_read_has_a_place_and_no_digest(sources: Sources, tmp_path: Path) -> None:
    """Its run begins all the same, and the next one tries again."""
    agent = written(tmp_path / "agent.py")
    with failing_call("open"):
        found = sources.of(agent, tmp_path)

    assert ("agent.py:orders_agent", "") == (found.path, found.digest)
    assert sha256(TEXT) == sources.of(agent, tmp_path).digest


def struck(nth: int, strike: Callable[[], None], deed: Callable[[], object]) -> bool:
    """Do it, with a strike before its nth call of the system; False when there were fewer."""
    left = nth

    def count(frame: FrameType, event: str, called: Any) -> None:
        nonlocal left
        if event == "c_call" and called.__name__ in ("stat", "lstat", "fstat", "open", "read"):
            left -= 1
            if left == 0:
                sys.setprofile(None)
                strike()

    sys.setprofile(count)
    try:
        deed()
    finally:
        sys.setprofile(None)
    return left <= 0


@links
def test_a_file_that_is_exchanged_between_any_two_calls_is_not_taken_for_the_other(
    clock: SetClock, tmp_path: Path
) -> None:
    """What was read of one file must not be kept for another that was looked at: the old one may come back."""
    agent = written(tmp_path / "one.py", str(tmp_path / "now.py"))
    (tmp_path / "two.py").write_text("# another\n")

    def lead(name: str) -> None:
        (tmp_path / "now.py").unlink(missing_ok=True)
        (tmp_path / "now.py").symlink_to(name)

    def after(nth: int) -> str | None:
        sources = Sources(clock)
        lead("one.py")
        sources.of(agent, Path())
        clock.advance(1)
        if not struck(nth, lambda: lead("two.py"), lambda: sources.of(agent, Path())):
            return None
        lead("one.py")
        return sources.of(agent, Path()).digest

    digests = list(itertools.takewhile(bool, map(after, itertools.count(1))))

    assert (True, {sha256(TEXT)}) == (len(digests) > 3, set(digests))


def test_many_files_are_not_kept_for_ever(sources: Sources, clock: SetClock, tmp_path: Path) -> None:
    """A process that writes its agents itself must not grow by each of them."""
    for n in range(3 * KNOWN):
        sources.of(written(tmp_path / f"agent{n}.py"), Path())

    assert len(sources._seen) <= KNOWN


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_sees_what_changed_since(sources: Sources, clock: SetClock, tmp_path: Path) -> None:
    """It inherits what was kept, and must look for itself."""
    agent = written(tmp_path / "agent.py")
    known(sources, agent, clock)
    child = os.fork()
    if child == 0:
        kept = not is_read(sources, agent)
        replaced(tmp_path / "agent.py")
        os._exit(40 + kept + 2 * (sources.of(agent, Path()).digest == sha256(TEXT.replace("pass", "None"))))
    _, status = os.waitpid(child, 0)

    assert 43 == os.waitstatus_to_exitcode(status)


def test_homes_do_not_share_what_they_keep(clock: SetClock, tmp_path: Path) -> None:
    """Each has a clock of its own, and the time of one proves nothing by the time of another."""
    agent = written(tmp_path / "agent.py")
    one, other = clew.Home(tmp_path / "a", clock=clock), clew.Home(tmp_path / "b", clock=SetClock())
    known(one._parts.sources, agent, clock)

    assert (False, True) == (is_read(one._parts.sources, agent), is_read(other._parts.sources, agent))
