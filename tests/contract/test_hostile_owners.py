"""Bad input, part 4: who holds the run, or held it: alive, stopped, dead here, on another boot, host or file system."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import clew
from clew.disk.mounts import kind, mounted
from tests.cli.shell import Done, Live
from tests.contract.hostile import RUN, WHO, Place, complaint, differences, fingerprint
from tests.house.tree import ROOT

ACTING = (
    ("resume", RUN),
    ("settle", RUN, "did-not-happen", *WHO),
    ("abort", RUN, *WHO),
    ("verify", RUN, "--accept-loss", *WHO),
)
LOOKING = (("ls",), ("show", RUN), ("show", RUN, "--log"), ("verify", RUN), ("resume", RUN, "--dry-run"))


def at_once(place: Place, *deeds: tuple[str, ...]) -> tuple[clew.Held, list[Done]]:
    """The library and several commands side by side: each of them waits two seconds for a lock."""
    lives = [place.start(*deed) for deed in deeds]
    with pytest.raises(clew.Held) as caught:
        clew.Home(place.home, takeover="proven").resume_sync(RUN, settling())
    return caught.value, [live.end("") for live in lives]


def settling() -> clew.Agent:
    """An agent that is declared as the one of the folder."""
    return clew.Agent(unused, name="settle")


def unused(run: clew.SyncRun, prompt: str) -> None:
    raise AssertionError("the agent of a run that is refused must not be called")


# A lock that is held.


@pytest.fixture
def held(place: Place) -> Iterator[Live]:
    """A run in the middle of a call, in a process of its own."""
    live = place.holding(run_id=RUN)
    yield live
    if live.process.poll() is None:
        live.process.kill()
    live.process.communicate(timeout=30)


@pytest.mark.parametrize("stopped", [False, True], ids=["alive", "stopped"])
def test_a_lock_that_is_held_is_never_taken(place: Place, held: Live, stopped: bool) -> None:
    """#31, #34: the refusal names the holder, since when, whether it is stopped, and what to do about it."""
    if stopped:
        held.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, held.process.pid, os.WSTOPPED | os.WNOWAIT)
    before = fingerprint(place.home)

    fault, done = at_once(place, ("resume", RUN), ("unlock", RUN, "--nonce", "n1", *WHO), ACTING[3])
    after = fingerprint(place.home)
    listed = place.type("ls")

    met = [complaint(each, differences(before, after)) for each in done]
    state, advice = "alive", f"Wait for that process, or pause it (`clew pause {RUN}`)"
    if stopped:
        state, advice = "stopped", f"Let that process go on (`kill -CONT {held.process.pid}`) or end it"
    who = f"run {RUN!r} is being written by process {held.process.pid} on {os.uname().nodename!r} ({state}), since 2"
    assert [(11, "run_state_locked", [])] * 3 == [each.short for each in met]
    assert [True] * 4 == [words.startswith(who) for words in (fault.message, *(each.message for each in met))]
    assert (state, held.process.pid) == (fault.facts["state"], fault.facts["owner"]["pid"])
    assert [True] * 3 == [each.next.startswith(advice) for each in met]
    assert listed.out.startswith(f"{'STOPPED' if stopped else 'RUNNING'}  {RUN}")


def test_a_held_run_is_looked_at_without_waiting_and_without_a_trace(place: Place, held: Live) -> None:
    """Promise 11: the writer must not notice."""
    before = fingerprint(place.home)

    codes = [place.type(*words).code for words in LOOKING]

    assert ([0] * len(LOOKING), []) == (codes, differences(before, fingerprint(place.home)))


# An owner that is gone.


GONE: dict[str, dict[str, Any]] = {
    "this boot": {},
    "this boot, its number used again": {"pid": os.getppid()},
    "another boot": {"bootId": "5f0c2c1e-0000-0000-0000-000000000000"},
    "another PID namespace of this boot": {"pidNamespace": "4026530000"},
}
FACTS = {
    "this boot": "no process ",
    "this boot, its number used again": f"no process {os.getppid()} with start tick 1",
    "another boot": "boot 5f0c2c1e-0000-0000-0000-000000000000 is over",
    "another PID namespace of this boot": "PID namespace 4026530000 of this boot is not ours",
}


@pytest.mark.parametrize("owner", GONE)
def test_a_program_does_not_take_over_even_from_an_owner_that_is_provably_gone(place: Place, owner: str) -> None:
    """#33, #35 as DESIGN §4 has them: `Held` with the proof, until an operator acts or a standing order says so."""
    place.dead(**GONE[owner])
    before = fingerprint(place.home)

    with pytest.raises(clew.Held) as caught:
        clew.Home(place.home).resume_sync(RUN, settling())

    proofs = {proof["proof"]: (proof["answer"], proof.get("fact", "")) for proof in caught.value.facts["proofs"]}
    assert ("takeover_refused", []) == (caught.value.code, differences(before, fingerprint(place.home)))
    assert f"run {RUN!r} was left open by pid " in caught.value.message
    assert f"Run `clew resume {RUN}`, or open the home with clew.Home(takeover='proven')" in caught.value.next
    assert ("yes", True) == (proofs["process_gone"][0], proofs["process_gone"][1].startswith(FACTS[owner]))


@pytest.mark.parametrize("owner", GONE)
def test_an_operator_takes_it_over_and_the_proof_is_printed_and_kept(place: Place, owner: str) -> None:
    """Typing the command is the act; on what it rests stands in the journal, with the user's name."""
    place.dead(**GONE[owner])

    done = place.type("resume", RUN)

    assert 21 == done.code
    assert f"process_gone: yes ({FACTS[owner]}" in done.err
    assert FACTS[owner] in place.journal().read_text("utf-8").splitlines()[6]


def test_a_real_death_is_told_in_the_words_of_the_contract(place: Place) -> None:
    """The lines of DESIGN §10, of a process that was really killed in the middle of a payment."""
    place.raise_flag("die")
    died = place.fork("run", "agent.py:settle", "1042", "--run-id", RUN)

    first, second, third, *_ = place("ls").out.splitlines()

    assert -signal.SIGKILL == died.code
    assert first.startswith(f"INTERRUPTED  {RUN}  1042   writer pid ")
    assert second.startswith("  1 effect uncertain: pay order=1042 cents=4200 (started ")
    assert "  next: clew settle k3f happened|did-not-happen --by … --reason …" == third


# An owner of whom nothing can be told from here.

DOUBTFUL: dict[str, dict[str, Any]] = {
    "another host": {"host": "far"},
    "another machine of the same name": {"machineId": "0" * 32},
    "a machine without an id": {"machineId": "", "bootId": "5f0c2c1e"},
}
DOUBTS = {
    "another host": "host 'far' is not",
    "another machine of the same name": "machineId",
    "a machine without an id": "machineId '' is not",
}


@pytest.mark.parametrize("owner", DOUBTFUL)
def test_an_owner_that_cannot_be_told_from_here_is_never_taken_for_dead(place: Place, owner: str) -> None:
    """W4: two writers pay twice. Each command names the owner, the doubt, and how a person's word frees the run."""
    place.dead(**DOUBTFUL[owner])
    nonce = clew.Home(place.home).reader.see(RUN).state.legs[0].nonce

    met = [place.refused(*words) for words in ACTING[:3]]
    listed = place.type("ls")

    assert [(11, "owner_not_proven", [])] * 3 == [each.short for each in met]
    assert [True] * 3 == [f"run {RUN!r} was left open by pid " in each.message for each in met]
    assert [True] * 3 == [f"process_gone: cannot_tell ({DOUBTS[owner]}" in each.message for each in met]
    assert {True} == {f"`clew unlock {RUN} --nonce {nonce} --by NAME --reason TEXT`" in each.next for each in met}
    assert listed.out.startswith(f"OWNER ELSEWHERE  {RUN}")


def test_a_persons_word_frees_it(place: Place) -> None:
    """What the refusal says to type works as it is printed, and the run goes on to its next question."""
    place.dead(host="far")
    words = place.refused("resume", RUN).next.partition("`clew ")[2].partition("`")[0]

    freed = place.type(*words.replace("NAME", "ann").replace("TEXT", "scrapped").split())
    resumed = place.type("resume", RUN)

    assert (0, 21) == (freed.code, resumed.code)


def test_what_is_said_of_a_loss_in_the_leg_of_such_an_owner_works_as_well(place: Place) -> None:
    """A journal that lost its end cannot be unlocked: the word is said with the loss, as the refusal prints it."""
    place.dead(host="far")
    (place.home / "runs" / RUN / "head.json").write_bytes(b"{")
    words = place.refused("verify", RUN, "--accept-loss", *WHO).next.partition("`clew ")[2].partition("`")[0]

    freed = place.type(*words.replace("NAME", "ann").replace("TEXT", "scrapped").split())
    verified = place.type("verify", RUN)

    assert (0, 0) == (freed.code, verified.code)


@pytest.mark.parametrize(
    ("words", "exit_code", "code"),
    [
        (("--nonce", "0" * 16, *WHO), 4, "stale_nonce"),
        (("--nonce", "0" * 16, "--by", " ", "--reason", "x"), 2, "review_incomplete"),
        (("--nonce", "0" * 16), 2, "invalid_command_line"),
        (WHO, 2, "unlock_incomplete"),
    ],
)
def test_half_a_word_frees_nothing(place: Place, words: tuple[str, ...], exit_code: int, code: str) -> None:
    """Of another leg, by nobody, without a reason: the run stays as it is."""
    place.dead(host="far")

    met = place.refused("unlock", RUN, *words)

    assert (exit_code, code, []) == met.short


def test_a_look_at_a_dead_or_distant_run_leaves_no_trace(place: Place) -> None:
    """Promise 11 for the two that an operator looks at most."""
    place.dead(host="far")
    place.dead("gone")
    before = fingerprint(place.home)

    codes = [place.type(*words).code for words in (*LOOKING, ("show", "gone"), ("resume", "gone", "--dry-run"))]

    assert ([0] * len(codes), []) == (codes, differences(before, fingerprint(place.home)))


# A real PID namespace.


def in_namespace(place: Place, *words: str) -> list[str]:
    """The command in a PID namespace of its own; skips where none may be made."""
    unshare = shutil.which("unshare")
    inside = [unshare or "", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if unshare is None or subprocess.run([*inside, "true"], capture_output=True, check=False, timeout=30).returncode:
        pytest.skip("this machine lets nobody make a PID namespace here")
    # Behind a shell: the first process of a namespace cannot kill itself.
    return [*inside, "sh", "-c", '"$@"; exit $?', "sh", *place.command(words)]


def test_a_process_that_died_in_a_real_pid_namespace_is_proven_gone_by_the_lock(place: Place) -> None:
    """From outside its number says nothing; that the kernel gave us its lock says that nobody there has it."""
    place.raise_flag("die")
    command = in_namespace(place, "run", "agent.py:settle", "1042", "--run-id", RUN)
    subprocess.run(command, cwd=place.folder, env=place.env, capture_output=True, check=False, timeout=60)
    before = fingerprint(place.home)

    listed = place.type("ls")
    unchanged = differences(before, fingerprint(place.home))
    resumed = place.type("resume", RUN)

    assert ([], 21) == (unchanged, resumed.code)
    assert listed.out.startswith(f"OWNER ELSEWHERE  {RUN}")
    assert "process_gone: yes (PID namespace " in resumed.err


def test_a_process_that_lives_in_a_real_pid_namespace_keeps_its_lock(place: Place) -> None:
    """W4: its pid is nobody's here, or another's; the kernel knows better."""
    command = in_namespace(place, "run", "agent.py:patient", "7", "--run-id", RUN)
    pipe = subprocess.PIPE
    live = Live(
        subprocess.Popen(command, cwd=place.folder, env=place.env, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    )
    live.until("holding")

    met = place.refused("resume", RUN)
    ended = live.end()

    assert (11, "run_state_locked", []) == met.short
    assert "(elsewhere), since 2" in met.message
    assert (0, ["7"]) == (ended.code, place.payments)


# File systems on which a lock proves nothing.


@pytest.fixture
def fused(place: Place) -> Iterator[Place]:
    """The home of a run that died here, on a real FUSE file system; skips where none may be mounted."""
    place.dead()
    (place.home / "home.json").unlink()
    place.home.rename(place.folder / "kept")
    place.home.mkdir()
    command = [sys.executable, "-m", "tests.contract.fuse", str(place.folder / "kept"), str(place.home)]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert server.stdout is not None
    if server.stdout.readline() != "mounted\n":
        server.communicate(timeout=30)
        pytest.skip("this machine lets nobody mount a FUSE file system here")
    yield place
    subprocess.run(["umount", "--lazy", str(place.home)], check=False, capture_output=True, timeout=30)
    server.communicate(timeout=30)


def test_on_a_real_fuse_file_system_no_owner_is_taken_for_dead(fused: Place) -> None:
    """Its lock may be this machine's alone: another host that mounts the same would be granted it as well."""
    before = fingerprint(fused.folder / "kept")

    met = [complaint(fused.fork(*words)) for words in ACTING[:3]]
    looked = [fused.fork(*words).code for words in LOOKING]

    assert [(11, "owner_not_proven", [])] * 3 == [each.short for each in met]
    assert [True] * 3 == ["local_file_system: no (fuse.clewtest)" in each.message for each in met]
    assert [True] * 3 == [f"`clew unlock {RUN} --nonce " in each.next for each in met]
    assert ([0] * len(LOOKING), []) == (looked, differences(before, fingerprint(fused.folder / "kept")))


MOUNTINFO = """\
22 1 0:21 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
36 22 0:32 / /mnt/far rw,relatime shared:9 - fuse.sshfs ann@far:/srv rw,user_id=0,group_id=0
37 22 0:33 / /mnt/nfs rw,relatime shared:10 - nfs4 far:/srv rw
38 22 0:34 / /mnt/odd rw,relatime shared:11 - oddfs odd rw
"""


@pytest.mark.parametrize(
    ("path", "name", "local"),
    [
        ("/srv/.clew", "ext4", True),
        ("/mnt/far/.clew", "fuse.sshfs", False),
        ("/mnt/nfs/.clew", "nfs4", False),
        ("/mnt/odd/.clew", "oddfs", None),
    ],
)
def test_what_a_file_system_is_is_read_from_the_mount_table(path: str, name: str, local: bool | None) -> None:
    """Only on a local one of a known kind does the kernel's lock prove anything."""
    found = kind(mounted(path, MOUNTINFO) or "")

    assert (name, local) == found


# A copied home.


@pytest.fixture
def copied(place: Place) -> Place:
    """A home that was copied with all that can be kept, and put in the place of its original."""
    place.dead()
    subprocess.run(["cp", "-a", str(place.home), str(place.folder / "copy")], check=True, timeout=30)
    place.home.rename(place.folder / "original")
    (place.folder / "copy").rename(place.home)
    return place


def test_a_copied_home_is_read_but_no_run_of_it_goes_on(copied: Place) -> None:
    """Both copies would pay: the copy is named, and what a person must be certain of before it is freed."""
    met = [copied.refused(*words) for words in ACTING]
    before = fingerprint(copied.home)
    looked = [copied.type(*words).code for words in LOOKING]

    assert [(4, "home_copied", [])] * 4 == [each.short for each in met]
    assert [True] * 4 == [f"the home {str(copied.home)!r} is a copy" in each.message for each in met]
    assert {True} == {f"`clew unlock --home {copied.home} --by NAME --reason TEXT`" in each.next for each in met}
    assert ([0] * len(LOOKING), []) == (looked, differences(before, fingerprint(copied.home)))


def test_a_copied_home_is_freed_by_a_persons_word_as_it_is_printed(copied: Place) -> None:
    """The word is typed as the refusal says it, and the run goes on to its next question."""
    freed = copied.type("unlock", "--home", str(copied.home), *WHO)
    resumed = copied.type("resume", RUN)

    assert (0, 21) == (freed.code, resumed.code)


def test_a_home_that_was_moved_is_no_copy(place: Place) -> None:
    """A project is renamed every day."""
    place.dead()
    moved = place.folder / "moved"
    place.home.rename(moved)

    done = place.type("settle", RUN, "happened", *WHO, "--home", str(moved))

    assert 0 == done.code
