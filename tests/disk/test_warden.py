"""The warden by itself: what it sees in procfs, whom it strikes, what it says. Groups are tested in test_groups."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clew.testing import failing_call
from tests.disk.living import living

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="wardens are for Linux")
if sys.platform == "linux":
    from clew.disk import warden
    from clew.disk.warden import Process, below, carrying, command_of, end_all, processes, seen

WAITS = "import sys; print('up', flush=True); sys.stdin.readline()"


PAUSES = "import signal; print('up', flush=True); signal.pause()"


def told(code: str = PAUSES, *arguments: str, owner: int | None = None, group: str = "") -> list[str]:
    """What a warden of a piece of Python says, run by hand."""
    hearing, report = os.pipe()
    command = [sys.executable, "-I", "-S", warden.__file__, str(report), str(owner or os.getpid()), "5", "5"]
    with subprocess.Popen(
        [*command, sys.executable, "-c", code, *arguments],
        pass_fds=(report,), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "CLEW_GROUP": group or f"by-hand-{os.getpid()}"},
    ) as started:  # fmt: skip
        os.close(report)
        with os.fdopen(hearing) as said:
            assert started.stdout is not None
            if started.stdout.readline() == b"up\n":
                started.terminate()
            return said.read().splitlines()


def test_a_process_is_seen_with_its_start() -> None:
    """A number alone is soon another process's."""
    me = seen(os.getpid())

    assert me is not None
    assert (os.getpid(), True) == (me.pid, me.tick > 0)
    assert (os.getppid(), me) == (processes()[me], next(found for found in processes() if found.pid == me.pid))


def test_a_close_that_fails_hides_nobody() -> None:
    """Reading was done; a raw error would have come out of a resume that only looks for living children."""
    me = seen(os.getpid())

    with failing_call("close"):
        found = seen(os.getpid())

    assert me == found is not None


def test_a_zombie_is_no_process() -> None:
    """It changes nothing any more, and waiting for it would wait for its parent."""
    with living(WAITS) as process:
        process.says()
        before = seen(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

        assert (True, None) == (before is not None, seen(process.pid))


def test_what_does_not_exist_is_not_seen() -> None:
    """The kernel gives no number above its limit."""
    assert (None, "[hidden]") == (seen(1 << 30), command_of(1 << 30))


@pytest.mark.parametrize(
    ("living_ones", "expected"),
    [
        ({}, []),
        ({(2, 1): 1, (3, 1): 2, (4, 1): 3, (9, 1): 8}, [2, 3, 4]),
        ({(1, 1): 0, (2, 1): 1, (3, 1): 1}, [2, 3]),
        ({(1, 1): 2, (2, 1): 1, (2, 9): 3, (3, 1): 2}, [2, 1, 3, 2]),
    ],
)
def test_descendants_of_all_generations_are_found(living_ones: dict[tuple[int, int], int], expected: list[int]) -> None:
    """A grandchild does as much harm as a child."""
    found = below(1, {Process(*process): parent for process, parent in living_ones.items()})

    assert expected == [process.pid for process in found]


@pytest.mark.parametrize(("value", "is_found"), [("one", True), ("on", False), ("one2", False)])
def test_a_mark_is_found_whole(value: str, is_found: bool) -> None:
    """Attempt 1 is not attempt 12."""
    os.environ["CLEW_TEST"] = "one"
    try:
        process = subprocess.Popen([sys.executable, "-c", WAITS], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    finally:
        del os.environ["CLEW_TEST"]
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        found = [each.pid for each in carrying("CLEW_TEST", value, processes())]
        process.kill()

    assert is_found == (process.pid in found)


AGAIN_AND_AGAIN = 'exec /bin/sh -c "$CODE"'


def test_a_process_is_known_while_it_takes_up_a_new_program() -> None:
    """What it was given looks empty for a moment; passed over it would live on, or go by a wrong name."""
    with subprocess.Popen(["/bin/sh", "-c", AGAIN_AND_AGAIN], env={"CODE": AGAIN_AND_AGAIN, "MARK": "1"}) as process:
        me = seen(process.pid)
        assert me is not None
        looks = [(carrying("MARK", "1", {me: 0}) == [me], "exec" in command_of(process.pid)) for _ in range(2000)]
        process.kill()

    assert [(True, True)] == list(set(looks))


def test_a_long_command_is_told_in_short() -> None:
    """A megabyte of arguments is no name; line ends would make two lines of one."""
    with living(WAITS, "a\nb", "x" * 10_000) as process:
        process.says()
        found = command_of(process.pid)

    assert (True, True, False) == (len(found) <= 200, f"{WAITS} a b xxx" in found, "\n" in found)


def test_only_the_very_process_is_struck() -> None:
    """Its number may be another one's by now."""
    with living(WAITS) as process:
        process.says()
        now = seen(process.pid)
        assert now is not None
        looks = iter([[Process(now.pid, now.tick - 1)], [], []])
        end_all(lambda: next(looks), lambda seconds: None, 0.0, 0.0)
        process.go_on()

        assert 0 == process.ends()


def test_what_is_started_while_all_is_ended_is_ended_too() -> None:
    """One that answers SIGTERM with a new child would otherwise win the race."""
    with living(WAITS) as first, living(WAITS) as second:
        first.says(), second.says()
        one, two = seen(first.pid), seen(second.pid)
        assert one is not None
        assert two is not None
        looks = iter([[one], [two], []])

        struck, left = end_all(lambda: next(looks), lambda seconds: None, 60.0, 60.0)

        assert ([one, two], []) == (list(struck), left)
        assert [-signal.SIGTERM] * 2 == [first.ends(), second.ends()]


def test_a_warden_that_is_told_to_end_says_so() -> None:
    """SIGTERM to it, as its own parent's death sends, is the same as the end of its input."""
    said = told()

    assert ["stopped", f"status {int(signal.SIGTERM)}", "done"] == said


def test_a_warden_whose_owner_is_gone_starts_nothing(tmp_path: Path) -> None:
    """It died between the fork and the first look: nobody would hear how the command ended."""
    said = told("import pathlib, sys; pathlib.Path(sys.argv[1]).touch()", str(tmp_path / "ran"), owner=1)

    assert (["done"], False) == (said, (tmp_path / "ran").exists())


def test_a_warden_ends_what_carries_the_groups_mark_and_is_no_child_of_it() -> None:
    """Somebody else may have started it for the command, with its environment: a scheduler, a server."""
    stranger = subprocess.Popen(
        [sys.executable, "-c", WAITS],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "CLEW_GROUP": f"stranger-{os.getpid()}"},
    )  # fmt: skip
    with stranger:
        assert stranger.stdout is not None
        stranger.stdout.readline()
        said = told("", group=f"stranger-{os.getpid()}")

    assert (f"ended {stranger.pid}", ["status 0", "done"]) == (" ".join(said[0].split()[:2]), said[1:])
    assert -signal.SIGTERM == stranger.returncode


BLIND = """
import sys
sys.path.insert(0, sys.argv[1])
from clew.disk import warden
warden.processes = dict
warden.main(sys.argv[2:])
"""


def test_a_child_that_procfs_hides_is_not_taken_for_gone(tmp_path: Path) -> None:
    """Where other users' processes are hidden, the kernel still knows that there is one: it is told as left."""
    os.mkfifo(tmp_path / "end")
    hearing, report = os.pipe()
    environment = {**os.environ, "CLEW_GROUP": f"hidden-{os.getpid()}"}
    arguments = [Path(warden.__file__).parents[2], report, os.getpid(), 0.1, 0.1, "/bin/sh", "-c", "read x <end"]
    with subprocess.Popen(
        [sys.executable, "-c", BLIND, *map(str, arguments)],
        pass_fds=(report,),
        stdin=subprocess.PIPE,
        cwd=tmp_path,
        env=environment,
    ) as started:
        os.close(report)
        assert started.stdin is not None
        started.stdin.close()
        with os.fdopen(hearing) as heard:
            said = heard.read().splitlines()
        (tmp_path / "end").write_text("\n")

    assert ["stopped", "left 0 0 [hidden]", "status -", "done"] == said


@pytest.mark.parametrize("pid", [1, os.getpid()], ids=["the first process", "this process"])
def test_who_is_no_warden(pid: int) -> None:
    """Only it is left out when processes are named."""
    assert not warden.is_warden(pid)
