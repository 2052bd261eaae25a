"""Commands as groups that end as a whole: real shells, real escapes, real deaths."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.disk import groups
from clew.disk.groups import GroupEnd, NotStarted, Patience, carriers, run_group, signal_name
from tests.disk.living import living, output_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands are for Linux")
if sys.platform == "linux":
    from clew.disk import warden

QUICK = Patience(0.1, 5.0)


def run(
    command: str, folder: Path, *, stop: Callable[[], bool] = lambda: False, patience: Patience = QUICK, **named: str
) -> tuple[GroupEnd, bytes]:
    """A command's end and all that it wrote."""
    written: list[bytes] = []
    program = ["/bin/sh", "-c", command]
    end = run_group(program, str(folder), {**os.environ, **named}, take=written.append, stop=stop, patience=patience)
    return end, b"".join(written)


def once(path: Path) -> Callable[[], bool]:
    """True as soon as a command has made this file."""
    return path.exists


def ends(pid: int) -> bool:
    """Wait for the end of any process; False when it lives still after a long time."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        return bool(poller.poll(30_000))
    finally:
        os.close(fd)


def pids_in(text: bytes) -> list[int]:
    return [int(word) for word in text.split()]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("exit 0", (0, "")),
        ("exit 3", (3, "")),
        ("kill -9 $$", (None, "SIGKILL")),
        ("kill 0", (None, "SIGTERM")),
        ("kill -36 $$", (None, "SIGRTMIN+2")),
        ("exec 1>&- 2>&-; exit 4", (4, "")),
    ],
)
def test_how_a_command_ended_is_known(tmp_path: Path, command: str, expected: Any) -> None:
    """An exit code is an answer; a signal to its whole group does not strike the one who tells."""
    end, _ = run(command, tmp_path)

    assert expected == (end.exit_code, end.signal_name.replace("signal 36", "SIGRTMIN+2"))
    assert ((), (), False, True) == (end.ended, end.left, end.stopped, end.watched)


def test_it_runs_where_and_with_what_it_is_told(tmp_path: Path) -> None:
    """A folder or a variable that is another one would make its effect another one."""
    end, written = run(
        'pwd; echo "$CLEW_CALL"; cat; echo "$(cut -d " " -f 5 /proc/$$/stat)=$$"', tmp_path, CLEW_CALL="a#1"
    )
    folder, mark, group = written.decode().splitlines()

    assert (0, str(tmp_path.resolve()), "a#1") == (end.exit_code, folder, mark)
    assert group.partition("=")[0] == group.partition("=")[2]


def test_a_command_has_no_more_than_its_three_streams(tmp_path: Path) -> None:
    """A descriptor of clew's in its hands could hold a journal's lock after clew's end."""
    _, written = run("ls /proc/$$/fd", tmp_path)

    assert b"0 1 2" == b" ".join(written.split())


def test_both_streams_come_in_the_order_in_which_they_were_written(tmp_path: Path) -> None:
    """An error that stands behind the line that it is about can be understood."""
    _, written = run("echo one; echo two >&2; echo three", tmp_path)

    assert b"one\ntwo\nthree\n" == written


def test_fifty_megabytes_are_taken(tmp_path: Path) -> None:
    """A pipe that nobody empties would hold the command for ever."""
    size = 0

    def take(piece: bytes) -> None:
        nonlocal size
        size += len(piece)

    run_group(
        ["/bin/sh", "-c", "head -c 50000000 /dev/zero"], str(tmp_path), dict(os.environ), take=take, stop=lambda: False
    )

    assert 50_000_000 == size


ESCAPES = {
    "background": "sleep 60 & echo $!",
    "session": "setsid sleep 60 & echo $!",
    "nohup": "nohup sleep 60 >/dev/null 2>&1 & echo $!",
    "daemon": "(setsid sh -c 'sleep 60 >/dev/null 2>&1 & echo $!' &) | cat",
    "no environment": "mkfifo up; env -i setsid sh -c 'echo >up; exec sleep 60' & echo $!; read up <up",
    "deaf": "mkfifo up; (trap '' TERM; echo >up; exec sleep 60) & echo $!; read up <up",
    "stopped": "sleep 60 & kill -STOP $!; echo $!",
    "mute": "sleep 60 <&- >/dev/null 2>&1 & echo $!",
}


@pytest.mark.parametrize("command", ESCAPES.values(), ids=ESCAPES)
def test_what_a_command_leaves_behind_is_ended_and_named(tmp_path: Path, command: str) -> None:
    """Who escapes goes on changing the world when the call has its answer: `nohup`, `setsid`, a double fork."""
    end, written = run(command, tmp_path)
    (pid,) = pids_in(written)

    # A shell that is just ending may be among them.
    ended = {each.pid: each.command for each in end.ended}
    assert (0, True, ()) == (end.exit_code, pid in ended, end.left)
    assert "sleep 60" in ended[pid]
    assert warden.seen(pid) is None


@pytest.mark.parametrize("command", ["sleep 60 & echo $!; touch up; wait", "setsid sleep 60 & echo $!; touch up; wait"])
def test_a_command_that_is_to_stop_ends_with_all_of_its_processes(tmp_path: Path, command: str) -> None:
    """A signal to the shell alone leaves its children to go on."""
    end, written = run(command, tmp_path, stop=once(tmp_path / "up"))
    (pid,) = pids_in(written)

    assert (True, None, "SIGTERM", ()) == (end.stopped, end.exit_code, end.signal_name, end.left)
    assert warden.seen(pid) is None


def test_a_command_that_takes_its_leave_may_do_so(tmp_path: Path) -> None:
    """SIGTERM comes first, so that what must be tidied is tidied; it was stopped all the same."""
    end, written = run(
        "trap 'echo bye; exit 0' TERM; touch up; while :; do sleep 0.01; done",
        tmp_path,
        stop=once(tmp_path / "up"),
        patience=Patience(20.0, 5.0),
    )

    assert (True, 0, b"bye\n") == (end.stopped, end.exit_code, written[-4:])


def test_one_that_is_not_waited_for_is_told(tmp_path: Path) -> None:
    """What could not be ended in time is not passed over in silence; its warden lives as long as it does."""
    end, written = run("(trap '' TERM; exec sleep 60) & echo $!", tmp_path, patience=Patience(0.0, 0.0))
    (pid,) = pids_in(written)

    assert ([pid], True) == ([left.pid for left in end.left], "sleep 60" in end.left[0].command)
    assert ends(pid)


POWERLESS = """
import ctypes, os, sys
# PR_CAPBSET_DROP of CAP_KILL: from the next program on, root may not signal the processes of others.
ctypes.CDLL(None).prctl(24, 5, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1], *sys.argv[2:]])
"""
REPORTS = """
import os, sys
from clew.disk.groups import Patience, carriers, run_group
mark = f"left-{os.getpid()}"
end = run_group(["/bin/sh", "-c", sys.argv[1]], "/", {**os.environ, "CLEW_TEST": mark},
                take=lambda piece: None, stop=lambda: False, patience=Patience(0.1, 0.1))
print([left.pid for left in end.left], [ended.pid for ended in end.ended], flush=True)
sys.stdin.readline()
# Looked for so often that a warden which only had not ended yet would be gone.
looks = [tuple(named.pid for named in carriers("CLEW_TEST", mark).get(mark, ())) for _ in range(100)]
print(*set(looks), flush=True)
sys.stdin.readline()
os.wait()
print(carriers("CLEW_TEST", mark), flush=True)
"""
ANOTHERS = """
import os
pid = os.open('pid', os.O_CREAT | os.O_WRONLY)
os.setuid(65534)
os.write(pid, b'%d' % os.getpid())
os.execve('/bin/sleep', ['sleep', '60'], {})
"""


@pytest.mark.skipif(os.name == "posix" and os.geteuid() != 0, reason="only root can become another user")
def test_what_may_not_be_signalled_is_named_and_found_as_long_as_it_lives(tmp_path: Path) -> None:
    """Another user's process cannot be ended and holds the pipe: nobody waits, but its warden stays to tell of it."""
    command = f'cd {tmp_path}; {sys.executable} -I -S -c "{ANOTHERS}" & while [ ! -s pid ]; do sleep 0.01; done'
    with living(POWERLESS, REPORTS, command) as process:
        left = process.says()
        (pid,) = pids_in((tmp_path / "pid").read_bytes())
        process.go_on()
        found = process.says()
        os.kill(pid, signal.SIGKILL)
        process.go_on()
        then = process.says()

    assert (f"[{pid}] []", f"({pid},)", "{}") == (left, found, then)


@pytest.mark.parametrize(
    ("program", "folder", "said"),
    [
        (["/no/such/program"], "", "No such file"),
        (["/bin/sh", "-c", "x" * (3 << 20)], "", "too long"),
        (["/bin/sh", "-c", "a\0b"], "", "null byte"),
        (["/bin/sh", "-c", "true"], "missing", "No such file"),
    ],
)
def test_what_cannot_be_started_is_said_to_have_not(tmp_path: Path, program: list[str], folder: str, said: str) -> None:
    """ "Nothing ran" is an answer that the agent can go on from; it must be true."""
    with pytest.raises(NotStarted, match=said):
        run_group(program, str(tmp_path / folder), dict(os.environ), take=lambda piece: None, stop=lambda: False)


STREAMLESS = """
import os, sys
from pathlib import Path
from clew.disk.groups import run_group
for number in (0, 1, 2):
    os.close(number)
wrote = []
end = run_group(["/bin/sh", "-c", "echo hi; exit 3"], "/", {}, take=wrote.append, stop=lambda: False)
Path(sys.argv[1]).write_text(f"{end.exit_code} {b''.join(wrote)} {end.watched}")
"""


def test_a_program_without_streams_hears_how_its_command_ended(tmp_path: Path) -> None:
    """The pipe on which the warden reports must not get the number of a stream that the command has."""
    output_of(STREAMLESS, tmp_path / "told")

    assert "3 b'hi\\n' True" == (tmp_path / "told").read_text()


FULL = """
import os, resource, sys
from clew.disk.groups import NotStarted, run_group
given = dict(program=["/bin/echo"], folder="/", environment={}, take=lambda piece: None, stop=lambda: False)
open_ones = len(os.listdir("/proc/self/fd")) - 1
for more in range(3):
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_ones + more, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    try:
        run_group(**given)
    except NotStarted as fault:
        print(fault)
"""


def test_without_a_free_descriptor_nothing_is_started_and_that_is_known() -> None:
    """A crowded program: were it told as a fault of any kind, a person would have to look what the command did."""
    said = output_of(FULL)

    assert 3 == len(said)
    assert "Too many open files" in said[1]


def test_a_program_without_an_interpreter_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The executable of a frozen program is itself, and would begin once more."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)

    with pytest.raises(NotStarted, match="no Python interpreter"):
        run("touch ran", tmp_path)
    assert not (tmp_path / "ran").exists()


def test_a_warden_that_is_killed_is_told_and_its_group_is_ended(tmp_path: Path) -> None:
    """Nobody saw how the command ended, so nobody may say that it went well."""
    end, written = run("setsid sleep 60 & echo $$ $!; kill -9 $PPID; wait", tmp_path)

    assert (False, None, "") == (end.watched, end.exit_code, end.signal_name)
    assert [None, None] == [warden.seen(pid) for pid in pids_in(written)]


def test_who_asks_and_raises_ends_the_group(tmp_path: Path) -> None:
    """Whatever strikes the caller, no process stays behind without a name."""
    pids: list[int] = []

    def stop() -> bool:
        if (tmp_path / "up").exists():
            pids.extend(pids_in((tmp_path / "pids").read_bytes()))
            raise KeyError("struck")
        return False

    with pytest.raises(KeyError):
        run("setsid sleep 60 & echo $! $$ $PPID >pids; touch up; wait", tmp_path, stop=stop)
    assert [None] * 3 == [warden.seen(pid) for pid in pids]


OWNER = """
import os, sys
from clew.disk.groups import run_group
run_group(["/bin/sh", "-c", sys.argv[1]], sys.argv[2], dict(os.environ), take=lambda piece: None, stop=lambda: False)
"""


def test_the_death_of_the_owner_is_the_end_of_the_group(tmp_path: Path) -> None:
    """Orphans of a killed run would go on paying."""
    os.mkfifo(tmp_path / "up")
    command = "setsid sleep 60 & echo $$ $! $PPID >up; wait"
    with living(OWNER, command, tmp_path) as owner:
        pids = pids_in((tmp_path / "up").read_bytes())
        owner.kill()

        assert all(ends(pid) for pid in pids)


def test_a_mark_finds_its_processes_and_their_descendants(tmp_path: Path) -> None:
    """One that threw its environment away is a child of one that has it; of a warden only its charges are told."""
    os.mkfifo(tmp_path / "up")
    mark = f"clew-test-{os.getpid()}:a"
    os.environ["CLEW_TEST"] = mark
    try:
        with living(OWNER, "env -i sleep 60 & echo $$ $! >up; wait", tmp_path) as owner:
            pids = pids_in((tmp_path / "up").read_bytes())
            found = carriers("CLEW_TEST", mark[:-1])
    finally:
        del os.environ["CLEW_TEST"]

    assert {owner.pid, *pids} == {named.pid for named in found[mark]}


def test_no_process_is_no_mark() -> None:
    """An empty answer is what lets a run go on."""
    assert {} == carriers("CLEW_TEST", "clew-nobody:")


def test_a_group_can_be_run_from_any_thread_and_by_many(tmp_path: Path) -> None:
    """Calls run side by side, each in a thread; no signal handler and no wait for a foreign child is shared."""
    code = """
import os, sys, threading
from clew.disk.groups import run_group
found = []
def one(number):
    end = run_group(["/bin/sh", "-c", f"exit {number}"], ".", dict(os.environ), take=found.append, stop=lambda: False)
    found.append((number, end.exit_code))
threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(sorted(found))
"""

    assert [str([(number, number) for number in range(8)])] == output_of(code)


def test_a_command_that_ends_in_the_wardens_last_word_is_not_that_word() -> None:
    """Every loop of the shell ends in `done`; what the warden says behind its name, the exit code, must be heard."""
    hearing, report = os.pipe()
    rest = [b"left 8 8 sh\nstatus 0\ndone\n", b"ended 7 7 sh -c while :; do :; done\n"]

    def stop() -> bool:
        if rest:
            os.write(report, rest.pop())
        return False

    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as started:
        said = groups._attend(started, hearing, lambda piece: None, stop)
    os.close(report)
    os.close(hearing)

    assert [b"ended 7 7 sh -c while :; do :; done", b"left 8 8 sh", b"status 0", b"done"] == said


FORKS = """
import os, signal, sys, threading
from collections import UserDict
from clew.disk.groups import run_group
over, found, (reading, writing) = threading.Event(), [], os.pipe()
def fork():
    if os.fork() == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
class Forking(UserDict):
    def keys(self):
        fork()
        return super().keys()
def run():
    found.append(run_group(["/bin/sh", "-c", sys.argv[3] + " & echo $PPID >up; wait"], sys.argv[1], environment,
                           take=lambda piece: None, stop=over.is_set))
environment = Forking(os.environ) if sys.argv[2] == "kill" else dict(os.environ)
running = threading.Thread(target=run)
running.start()
warden = int(open(sys.argv[1] + "/up").read())
if sys.argv[2] == "kill":
    os.kill(warden, signal.SIGKILL)
else:
    fork()
    over.set()
running.join()
os.close(writing)
print(found[0].stopped, found[0].watched)
"""


@pytest.mark.parametrize("command", ["sleep 60", "yes"])
@pytest.mark.parametrize(("way", "expected"), [("stop", "True True"), ("kill", "False False")])
def test_a_forked_child_of_ours_does_not_keep_the_group(tmp_path: Path, way: str, expected: str, command: str) -> None:
    """It has copies of our ends of the pipes, so that we close them is not seen, nor that the warden's are closed."""
    os.mkfifo(tmp_path / "up")

    assert [expected] == output_of(FORKS, tmp_path, way, command)


@pytest.mark.parametrize(("number", "name"), [(signal.SIGTERM, "SIGTERM"), (200, "signal 200")])
def test_a_signal_has_a_name(number: int, name: str) -> None:
    """Real-time signals have none of their own."""
    assert name == signal_name(number)


def test_a_process_is_named_with_its_beginning() -> None:
    """Two processes of one number are told apart by when they began."""
    with living("print('up', flush=True); input()") as process:
        process.says()
        seen = warden.seen(process.pid)
        assert seen is not None
        named = groups._words(seen, "python")

    assert (process.pid, "python", True) == (named.pid, named.command, named.since_ms > 1_600_000_000_000)
