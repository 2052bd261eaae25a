"""The situations of `docs/recovery.md`, second part: held, damaged, refused."""

import os
import signal
import subprocess

import clew
from clew.core.compose import Move
from clew.core.events import tool_result
from tests.contract.hostile import RUN, fill, small_disk, stretched
from tests.contract.situations import Situation, holding, implant, situation
from tests.histories import Scribe, completed, facts, paused, returned, start, started

# A run that is held.


@situation("another process runs it")
def _(found: Situation) -> Situation:
    live = holding(found, keep=True)
    found.look("resume", RUN)
    found.see()
    found.between = {1: live.end}
    return found


@situation("its process is stopped")
def _(found: Situation) -> Situation:
    live = holding(found, keep=True)
    live.signal(signal.SIGSTOP)
    os.waitid(os.P_PID, live.process.pid, os.WSTOPPED | os.WNOWAIT)
    found.look("resume", RUN)
    found.see()
    found.between = {0: lambda: live.signal(signal.SIGCONT), 1: live.end}
    return found


@situation("a program may not take it over")
def _(found: Situation) -> Situation:
    found.run("pay:1", "early-1", real=True)
    try:
        found.home.resume_sync(RUN, clew.Agent(_unused, name="settle"))
    except clew.Held as fault:
        found.say(fault)
    return found


def _unused(run: clew.SyncRun, prompt: str) -> None:
    raise AssertionError("it must not be called")


@situation("its process cannot be seen from here")
def _(found: Situation) -> Situation:
    found.place.dead(host="far")
    found.values = {"NONCE": found.home.reader.see(RUN).state.legs[0].nonce}
    found.look("resume", RUN)
    return found.see()


# A journal that is damaged.


@situation("a torn end")
def _(found: Situation) -> Situation:
    found.place.dead()
    found.place.damage(lambda data: data + b'{"version":1,"runId":"k3f9x2","sequence":7,"eventId":"')
    return found.see()


@situation("a line is not what was written")
def _(found: Situation) -> Situation:
    found.run("pay:1", "boom")
    copy = found.place.journal().read_bytes()
    found.place.damage(lambda data: data.replace(b'"order":"1"', b'"order":"77"'))
    found.between = {1: lambda: found.place.replace_journal(RUN, copy)}
    return found.see()


@situation("its journal contradicts itself")
def _(found: Situation) -> Situation:
    scribe, call = Scribe(RUN).born(), facts(1, run_id=RUN)
    scribe.say(*started(call))
    scribe.say(*returned(call), tool_result(call, is_error=False))
    scribe.say(*completed())
    implant(found, scribe.data)
    found.look("verify", RUN, "--deep")
    return found.see()


@situation("acknowledged records are missing")
def _(found: Situation) -> Situation:
    found.run("pay:1", "bug", real=True)
    found.place.damage(lambda data: b"".join(data.splitlines(keepends=True)[:6]))
    return found.see()


@situation("its head cannot be read")
def _(found: Situation) -> Situation:
    found.run("pay:1", "bug")
    (found.place.home / "runs" / RUN / "head.json").write_bytes(b"{")
    return found.see()


@situation("the disk is full")
def _(found: Situation) -> Situation:
    disk = found.place.folder / "disk"
    mounted = small_disk(disk, 64 * 4096)
    mounted.__enter__()
    found.finish = lambda: mounted.__exit__(None, None, None)
    found.place.home.symlink_to(disk)
    found.run("pay:1", "bug")
    (found.place.home / "runs" / RUN / "head.json").unlink()
    found.place.damage(stretched)
    fill(disk, 0)
    found.look("resume", RUN)
    found.between = {0: (disk / "filler").unlink}
    return found


TALKER = """
from pathlib import Path

import clew


@clew.agent
def settle(run, prompt):
    run.say({"role": "user", "content": "before"})
    if not Path("noticed").exists():
        with Path(".clew/sessions/talk.jsonl").open("a") as talk:
            talk.write("another program's\\n")
    run.say({"role": "user", "content": "behind"})
    return "done"
"""


@situation("what the agent said could not be kept in its session")
def _(found: Situation) -> Situation:
    (found.place.folder / "agent.py").write_text(TALKER, "utf-8")
    found.look("run", "agent.py:settle", "go", "--run-id", RUN, "--session", "talk")

    def noticed() -> None:
        talk = found.place.home / "sessions" / "talk.jsonl"
        talk.write_bytes(talk.read_bytes().removesuffix(b"another program's\n"))
        (found.place.folder / "noticed").touch()

    found.between = {0: noticed}
    return found


# Refused.


@situation("another program began it")
def _(found: Situation) -> Situation:
    implant(found, _foreign())
    found.look("resume", RUN, "--agent", "agent.py:settle")
    return found.see()


@situation("what the agent declares has changed")
def _(found: Situation) -> Situation:
    found.run("pay:1", "bug")
    found.edit_agent("@clew.agent(", "@clew.agent(config={'bank': 'the new one'}, ")
    found.look("resume", RUN)
    return found


@situation("another input under this id")
def _(found: Situation) -> Situation:
    found.run("pay:1", "bug")
    try:
        found.home.ensure_sync(clew.Agent(_unused, name="settle"), "pay:2", run_id=RUN)
    except clew.Refused as fault:
        found.say(fault)
    return found


@situation("the plan is older than the journal")
def _(found: Situation) -> Situation:
    found.run("pay:1", "bug")
    agent = clew.Agent(_unused, name="settle")
    plan = found.home.plan(RUN, agent)
    found.place.raise_flag("bug")
    found.look("resume", RUN)
    try:
        found.home.resume_sync(RUN, agent, plan=plan)
    except clew.Refused as fault:
        found.say(fault)
    return found


@situation("the agent is not where it was")
def _(found: Situation) -> Situation:
    found.run("pay:1", "bug")
    (found.place.folder / "agent.py").rename(found.place.folder / "moved.py")
    found.values = {"FILE:AGENT": "moved.py:settle"}
    found.look("resume", RUN)
    return found


@situation("the home is a copy")
def _(found: Situation) -> Situation:
    found.run("pay:1", "bug")
    copy = found.place.folder / "copy"
    subprocess.run(["cp", "-a", str(found.place.home), str(copy)], check=True, timeout=30)
    found.place.home.rename(found.place.folder / "original")
    copy.rename(found.place.home)
    found.values = {"HOME": str(found.place.home)}
    found.look("resume", RUN)
    return found


def _foreign() -> bytes:
    """A run as another program writes it: unchained, without a leg, paused."""
    scribe = Scribe(RUN)
    scribe.say(start(), Move("ACCEPT"), Move("START"))
    scribe.say(*paused())
    lines = []
    for line in scribe.data.splitlines():
        head, _, _ = line.partition(b',"chain":"')
        lines.append(head + b"}\n")
    return b"".join(lines).replace(scribe_leg(scribe.data), b"")


def scribe_leg(data: bytes) -> bytes:
    """The member `leg` of the first record, its comma included."""
    first = data.partition(b',"leg":{')[2].partition(b"}")[0]
    return b',"leg":{' + first + b"}"
