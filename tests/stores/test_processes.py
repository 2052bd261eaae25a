"""Commands as calls give them: what is kept of their output, how their attempts are found, what is never claimed."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from clew.disk.groups import Patience
from clew.errors import Refused
from clew.stores.base import CommandEnd, Order
from clew.stores.processes import LocalProcesses
from tests.disk.living import lives, living, orphan, output_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands are for Linux")
if sys.platform == "linux":
    from clew.disk import warden


def run(command: str, folder: Path, *, head: int = 1000, tail: int = 1000, **how: Any) -> CommandEnd:
    processes = LocalProcesses(time.monotonic, patience=Patience(0.1, 5.0))
    return processes.run(Order(command, str(folder), "r:shell-1:c1#1", head, tail), how.get("stop", lambda: ""))


@pytest.mark.parametrize(
    ("head", "tail", "expected"),
    [
        (10, 10, (b"0123456789", b"")),
        (6, 4, (b"012345", b"6789")),
        (6, 20, (b"012345", b"6789")),
        (3, 2, (b"012", b"89")),
        (3, 0, (b"012", b"")),
    ],
)
def test_the_beginning_and_the_end_are_kept(
    tmp_path: Path, head: int, tail: int, expected: tuple[bytes, bytes]
) -> None:
    """The cause of a failure stands at one of the two ends; how long the whole was is never lost."""
    end = run("printf 01234; printf 56; printf 789", tmp_path, head=head, tail=tail)

    assert (*expected, 10) == (end.head, end.tail, end.size_bytes)


def test_a_long_output_is_kept_at_both_ends(tmp_path: Path) -> None:
    """Memory holds what is kept, whatever a command writes."""
    end = run("printf begin; head -c 5000000 /dev/zero; printf end", tmp_path, head=5, tail=3)

    assert (b"begin", b"end", 5_000_008) == (end.head, end.tail, end.size_bytes)


def test_a_command_knows_its_attempt_and_the_programs_environment(tmp_path: Path) -> None:
    """By `CLEW_CALL` it is found again; without PATH it would find nothing."""
    end = run('printf "$CLEW_CALL $PATH"', tmp_path)

    assert f"r:shell-1:c1#1 {os.environ['PATH']}".encode() == end.head


def test_durations_are_measured_by_the_clock_that_is_given(tmp_path: Path) -> None:
    """The wall clock may be set while a command runs (C122)."""
    ticks = iter((100.0, 100.25))
    processes = LocalProcesses(lambda: next(ticks))

    end = processes.run(Order("true", str(tmp_path), "r:shell-1:c1#1", 1, 1), lambda: "")

    assert 250 == end.duration_ms


def test_why_it_was_stopped_is_told(tmp_path: Path) -> None:
    """The caller has more than one reason, and the person who looks at the run wants the one that counted."""
    end = run("touch up; sleep 60", tmp_path, stop=lambda: "too long" if (tmp_path / "up").exists() else "")

    assert ("too long", "SIGTERM", True) == (end.stopped, end.signal_name, end.watched)


def test_a_command_that_somebody_else_ended_did_not_end_by_itself(tmp_path: Path) -> None:
    """A machine that shuts down tells every process to end: what the command had begun is cut off under it."""
    order = Order("sleep 60 & trap 'echo done; exit 0' TERM; kill $PPID; wait", str(tmp_path), "r:shell-1:c1#1", 10, 10)

    end = LocalProcesses(time.monotonic, patience=Patience(30.0, 5.0)).run(order, lambda: "")

    assert ((0, b"done\n"), True) == ((end.exit_code, end.head), "told to end" in end.stopped)


def test_a_command_that_had_ended_before_was_not_stopped(tmp_path: Path) -> None:
    """It came to its own end; that what it left behind is being ended takes nothing from that."""

    def stop() -> str:
        told = (tmp_path / "main").read_text() if (tmp_path / "main").exists() else ""
        return "its first process is gone" if told.endswith("\n") and warden.seen(int(told)) is None else ""

    end = run("(trap '' TERM; exec sleep 60) & echo $$ >main", tmp_path, stop=stop)

    assert (0, "", 1) == (end.exit_code, end.stopped, len(end.ended))


def test_what_was_ended_is_told_in_words(tmp_path: Path) -> None:
    """A number alone is nothing that a person can look for."""
    end = run("sleep 60 & echo $!", tmp_path)

    assert re.fullmatch(rf"pid {int(end.head)} \(.*sleep 60.*\) since 20[-0-9T:.]+Z", end.ended[0])


def test_what_is_not_started_is_refused(tmp_path: Path) -> None:
    """Nothing ran, and that is said in a way that the agent can be told."""
    with pytest.raises(Refused) as caught:
        run("touch ran", tmp_path / "missing")

    assert ("command_not_started", str(tmp_path / "missing")) == (caught.value.code, caught.value.facts["folder"])


OWNER = """
import sys, time
from clew.stores.base import Order
from clew.stores.processes import LocalProcesses
LocalProcesses(time.monotonic).run(Order(sys.argv[1], sys.argv[2], sys.argv[3], 1, 1), lambda: "")
"""


def test_living_processes_are_found_by_their_run(tmp_path: Path) -> None:
    """A resume asks for all attempts of its run at once, and for those of no other run."""
    os.mkfifo(tmp_path / "up")
    run_id = f"test-{os.getpid()}"
    with living(OWNER, "echo $$ >up; exec sleep 60", tmp_path, f"{run_id}:shell-1:c1#2"):
        pid = int((tmp_path / "up").read_bytes())
        found = LocalProcesses(time.monotonic).living(run_id)
        other = LocalProcesses(time.monotonic).living(run_id[:-1])

    assert [f"{run_id}:shell-1:c1#2"] == list(found)
    assert re.fullmatch(rf"pid {pid} \(.*sleep 60\) since 20[-0-9T:.]+Z", found[f"{run_id}:shell-1:c1#2"])
    assert {} == other


def quick() -> LocalProcesses:
    return LocalProcesses(time.monotonic, patience=Patience(0.2, 5.0))


@pytest.mark.parametrize(("leg", "ended"), [("n1", True), ("n2", False), ("", False)])
def test_a_process_is_ended_by_the_nonce_of_a_leg_of_the_run(leg: str, ended: bool) -> None:
    """Another home may have a run of this id: the mark alone is no proof, and a guess would end that one's work."""
    run_id = f"test-{os.getpid()}"
    with orphan(CLEW_CALL=f"{run_id}:pay-1:c1#1", CLEW_LEG=leg) as pid:
        left = quick().end(run_id, ["n1", ""])
        found = (lives(pid), list(quick().living(run_id)))

    assert ({}, (not ended, [] if ended else [f"{run_id}:pay-1:c1#1"])) == (left, found)


def test_a_process_below_this_one_is_ended_by_its_mark_alone() -> None:
    """Whose it is, its descent says; and it dies with all that it started."""
    run_id = f"test-{os.getpid()}"
    marked = {**os.environ, "CLEW_CALL": f"{run_id}:pay-1:c1#1"}
    command = ["sh", "-c", "env -u CLEW_CALL sleep 60 & echo $!; wait"]
    with subprocess.Popen(command, env=marked, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        other = quick().end(run_id[:-1], [])
        before = lives(child)
        left = quick().end(run_id, [])

    assert ({}, True, {}, False) == (other, before, left, lives(child))
    assert process.returncode in (-signal.SIGTERM, -signal.SIGKILL)


ADOPTS = """
import os, subprocess, sys, time
from clew.disk.groups import Patience
from clew.stores.processes import LocalProcesses
before = subprocess.Popen(["sleep", "60"])
processes = LocalProcesses(time.monotonic, patience=Patience(0.2, 5.0))
away = "sleep 60 >/dev/null 2>&1 & echo $!"
with processes.adopting():
    pid = int(subprocess.run(["setsid", "sh", "-c", away], capture_output=True, check=True).stdout)
    named = processes.living("r1")
    left = processes.end("r1", [])
state = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] if os.path.exists(f"/proc/{pid}") else "-"
print(*named, f"pid {pid} (" in "".join(named.values()), left, state in "Z-", before.poll(), flush=True)
before.kill()
before.wait()
"""


def test_a_program_that_owns_its_process_ends_what_lost_its_parent() -> None:
    """A grandchild with a session of its own and no mark; who was there before is not the run's."""
    assert ["a process without a mark True {} True None"] == output_of(ADOPTS)


def test_who_asks_for_the_end_is_never_ended_itself() -> None:
    """A run inside of another run's tool carries that one's mark, and would be told to end itself."""
    code = """
import os, time
from clew.stores.processes import LocalProcesses
print(LocalProcesses(time.monotonic).end("r1", ["n1"]), flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "CLEW_CALL": "r1:pay-1:c1#1", "CLEW_LEG": "n1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert "{}\n" == done.stdout
