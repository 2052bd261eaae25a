"""Who is alive, who is gone, and what cannot be told."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from clew.disk import process
from clew.disk.process import Gone, identity, look, owner_state, parse_stat, prove_gone
from clew.errors import Storage
from clew.testing import failing_call
from tests.disk.living import living, output_of

if sys.platform != "win32":
    import pwd

WAITER = "import sys; print('here', flush=True); sys.stdin.readline()"


@pytest.fixture
def here() -> dict[str, Any]:
    return identity()


def owner_of(pid: int, here: dict[str, Any]) -> dict[str, Any]:
    return {**here, "pid": pid, "startTick": look(pid).start_tick}


def test_an_identity_has_the_members_of_a_leg(here: dict[str, Any]) -> None:
    """They are journaled and judged by other versions, so names and types are a contract."""
    types = {name: type(value) for name, value in here.items()}

    text = dict.fromkeys(["host", "machineId", "bootId", "pidNamespace", "user"], str)
    assert types == {**text, "pid": int, "startTick": int}


def test_this_process_is_alive(here: dict[str, Any]) -> None:
    """The plainest case, by both questions."""
    answers = (owner_state(here, here), prove_gone(here, here).answer)

    assert answers == ("alive", "no")


def test_a_stopped_process_is_not_gone(here: dict[str, Any]) -> None:
    """It can go on and write; only its lock tells."""
    with living(WAITER) as process:
        process.says()
        owner = owner_of(process.pid, here)
        process.stop()

        answers = (owner_state(owner, here), prove_gone(owner, here).answer)

    assert answers == ("stopped", "no")


def test_a_killed_process_is_gone(here: dict[str, Any]) -> None:
    """The fact is the one that the journal quotes."""
    with living(WAITER) as process:
        process.says()
        owner = owner_of(process.pid, here)
        process.kill()

        answers = (owner_state(owner, here), prove_gone(owner, here))

    fact = f"no process {owner['pid']} with start tick {owner['startTick']}"
    assert answers == ("gone", Gone("yes", fact))


def test_a_zombie_is_gone(here: dict[str, Any]) -> None:
    """It has a number still, but no descriptor: it can never write again."""
    with living(WAITER) as process:
        process.says()
        owner = owner_of(process.pid, here)
        process.process.send_signal(9)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

        answers = (owner_state(owner, here), prove_gone(owner, here))

    assert answers == ("gone", Gone("yes", f"process {owner['pid']} is a zombie"))


def test_a_number_that_was_given_again_is_another_process(here: dict[str, Any]) -> None:
    """Numbers come round; the start tick tells two processes apart, and no clock is asked."""
    owner = {**here, "startTick": here["startTick"] - 1}

    answers = (owner_state(owner, here), prove_gone(owner, here).answer)

    assert answers == ("gone", "yes")


def test_another_boot_ended_every_process(here: dict[str, Any]) -> None:
    """Whatever number it had, and whoever has that number now."""
    owner = {**here, "bootId": "5f0c2c1e-7a11-4c55-9c41-2b1d0a7be001"}

    answers = (owner_state(owner, here), prove_gone(owner, here).answer)

    assert answers == ("gone", "yes")


def test_another_pid_namespace_counts_only_with_the_lock(here: dict[str, Any]) -> None:
    """A reader cannot see into it; who holds the lock knows that no descriptor is left there."""
    owner = {**here, "pidNamespace": "1"}

    answers = (owner_state(owner, here), prove_gone(owner, here).answer)

    assert answers == ("elsewhere", "yes")


@pytest.mark.parametrize(
    "change",
    [
        {"host": "other"},
        {"machineId": "other"},
        {"host": None},
        {"pid": "812"},
        {"pid": -1},
        {"pid": True},
        {"startTick": 1.5},
        {"bootId": 1},
        {"pidNamespace": None},
    ],
)
def test_what_is_of_another_machine_or_unreadable_cannot_be_told(here: dict[str, Any], change: dict[str, Any]) -> None:
    """A guess here would give one run two writers; a person decides instead."""
    owner = {**here, **change}

    answers = (owner_state(owner, here), prove_gone(owner, here).answer)

    assert answers == ("elsewhere", "cannot_tell")


def test_a_machine_without_an_id_cannot_tell_another_boot_from_another_machine(here: dict[str, Any]) -> None:
    """Containers often have none, and their host names repeat."""
    nameless = {**here, "machineId": ""}

    answer = prove_gone({**nameless, "bootId": "other"}, nameless).answer

    assert answer == "cannot_tell"


@pytest.mark.parametrize("member", ["bootId", "pidNamespace"])
@pytest.mark.parametrize("unknown", ["to the leg", "to this process"])
def test_what_one_side_could_not_be_told_proves_nothing(here: dict[str, Any], member: str, unknown: str) -> None:
    """An empty boot id is no other boot: a living process would be said to be gone, and journaled as proven so."""
    leg, now = (here | {member: ""}, here) if unknown == "to the leg" else (here, here | {member: ""})

    answers = (owner_state(leg, now), prove_gone(leg, now))

    why = f"{member} is not known of {'the leg' if unknown == 'to the leg' else 'this process'}"
    assert answers == ("elsewhere", Gone("cannot_tell", why))


@pytest.mark.skipif(sys.platform == "win32", reason="the limit of descriptors is POSIX")
@pytest.mark.parametrize("left", [0, 1])
def test_a_process_without_descriptors_does_not_say_half_of_who_it_is(left: int) -> None:
    """A leg without a start tick could never be proven gone; so who cannot be told now is told so, and asked again."""
    code = """
import os, resource, sys
from clew.disk.process import identity
from clew.errors import Storage
taken = [os.dup(0) for _ in range(int(sys.argv[1]))]
resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1] + 1 if taken else 4096, 4096))
for fd in taken[len(taken) - int(sys.argv[2]):]: os.close(fd)
try:
    found = identity()
except Storage as error:
    print(error.code, error.facts["errno"])
    for fd in taken[:10]: os.close(fd)
    found = identity()
print(sorted(name for name in ("bootId", "startTick", "pidNamespace") if not found[name]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, "20", str(left)], capture_output=True, text=True, check=True, timeout=60
    )

    expected = ["run_state_failed EMFILE"] if left == 0 else []
    assert [*expected, "[]"] == done.stdout.splitlines()


def test_a_number_beyond_all_numbers_is_nobody(here: dict[str, Any]) -> None:
    """A damaged leg must not end in a traceback."""
    assert owner_state({**here, "pid": 10**30}, here) == "gone"


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("812 (python) S", "alive"),
        ("812 (a) Z 1 (b) R", "alive"),
        ("812 (x y) T", "stopped"),
        ("812 (python) t", "stopped"),
        ("812 (python) Z", "zombie"),
        ("812 (python) X", "zombie"),
    ],
)
def test_a_stat_line_is_read_behind_its_last_bracket(text: str, state: str) -> None:
    """The name in it is the process's own choice, and may look like fields."""
    line = f"{text} 1 2 3 0 -1 4 5 6 7 8 9 10 11 12 20 0 1 0 918273 0 0"

    seen = parse_stat(line)

    assert (seen.state, seen.start_tick) == (state, 918273)


def test_a_zombie_with_threads_lives() -> None:
    """Its main thread ended, but the others still have the journal open."""
    seen = parse_stat("812 (python) Z 1 2 3 0 -1 4 5 6 7 8 9 10 11 12 20 0 3 0 918273 0 0")

    assert seen.state == "alive"


@pytest.fixture
def forgotten() -> Iterator[None]:
    """What this process knows of itself for good is asked anew, and again behind the test."""
    kept = [getattr(process, name) for name in ("_fixed", "_name_of") if hasattr(process, name)]
    for each in kept:
        each.cache_clear()
    yield
    for each in kept:
        each.cache_clear()


@pytest.fixture
def without_procfs(forgotten: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a jail where nothing is mounted there, or where the processes of others are hidden."""
    monkeypatch.setattr(process, "_PROC", tmp_path)


posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has another way to ask")


@posix
@pytest.mark.usefixtures("without_procfs")
def test_where_nothing_is_shown_nothing_is_said_of_this_process() -> None:
    """What is not known is empty, and proves nothing later; a made-up value would prove a living owner gone."""
    found = identity()

    assert ("", 0, "") == (found["bootId"], found["startTick"], found["pidNamespace"])


@posix
@pytest.mark.parametrize("denied", [False, True])
def test_a_hidden_process_is_not_gone(
    here: dict[str, Any], denied: bool, without_procfs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A procfs that hides the processes of others is usual on shared machines; their owners live all the same."""
    owner = {**here, "pid": os.getppid()}

    with failing_call("kill", error=PermissionError()) if denied else nullcontext():
        state = owner_state(owner, here)
    with failing_call("kill", error=PermissionError()) if denied else nullcontext():
        gone = prove_gone(owner, here)

    assert ("elsewhere", Gone("cannot_tell", f"process {owner['pid']} is hidden from this user")) == (state, gone)


@posix
@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("call", ["open", "stat"])
@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO])
def test_what_cannot_be_read_just_now_is_no_answer(call: str, code: int) -> None:
    """A leg whose owner nobody could tell could never be taken over by proof."""
    with failing_call(call, error=OSError(code, "not now")), pytest.raises(Storage):
        identity()


def name_of(user_id: int) -> str:
    """As this system has it: by number where it has none."""
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return str(user_id)


@posix
@pytest.mark.usefixtures("forgotten")
def test_a_user_without_a_name_is_told_by_number_and_asked_for_again() -> None:
    """In a container the user often stands in no list, or the list is away just now; a run begins all the same."""
    with failing_call("getpwuid", error=KeyError("none")):
        found = identity()

    assert (str(os.geteuid()), name_of(os.geteuid())) == (found["user"], identity()["user"])


@posix
@pytest.mark.usefixtures("forgotten")
def test_the_name_of_a_user_is_looked_up_once() -> None:
    """It is read out of a file, or asked of a server, and stands in every leg."""
    before = identity()["user"]
    with failing_call("getpwuid", error=KeyError("not again")):
        again = identity()["user"]

    assert name_of(os.geteuid()) == before == again


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root may become another")
def test_a_process_that_changes_its_user_is_told_by_the_new_one() -> None:
    """A server begins as root and goes on as somebody; its legs must not be said to be root's."""
    code = """
import os
from clew.disk.process import identity
for user_id in (0, 65534, 0):
    os.seteuid(user_id)
    print(identity()["user"])
"""

    assert [name_of(0), name_of(65534), name_of(0)] == output_of(code)
