"""The situations of `docs/recovery.md`, first part: a run that stopped."""

import os
import signal
import subprocess

from tests.contract.hostile import OTHER, RUN
from tests.contract.situations import Situation, ended, holding, situation


@situation("died in an effect")
def _(found: Situation) -> Situation:
    return found.run("pay:1", "die", real=True).see()


@situation("died in an effect that can be asked after")
def _(found: Situation) -> Situation:
    return found.run("ask:1", "die", real=True).see()


@situation("died between effects")
def _(found: Situation) -> Situation:
    return found.run("pay:1", "early-1", real=True).see()


@situation("an effect needs a person")
def _(found: Situation) -> Situation:
    return found.run("pay:1", "boom").see()


@situation("the probe says not yet")
def _(found: Situation) -> Situation:
    (found.place.folder / "bank-is-closed").touch()
    found.run("ask:1", "boom").see()
    found.between = {1: (found.place.folder / "bank-is-closed").unlink}
    return found


@situation("happened, its answer was not kept")
def _(found: Situation) -> Situation:
    found.place.home.mkdir(mode=0o700)
    (found.place.home / "blobs").touch()
    found.run("report").see()
    found.between = {0: (found.place.home / "blobs").unlink}
    return found


@situation("files could not be kept before a call")
def _(found: Situation) -> Situation:
    (found.place.folder / "note").write_text("old")
    found.place.home.mkdir(mode=0o700)
    (found.place.home / "blobs").touch()
    found.run("note:new").see()
    found.between = {0: (found.place.home / "blobs").unlink}
    return found


@situation("the bytes of an answer are gone")
def _(found: Situation) -> Situation:
    found.run("report", "bug")
    blob = next(path for path in (found.place.home / "blobs").rglob("*") if path.is_file())
    copy = blob.read_bytes()
    blob.unlink()
    found.look("resume", RUN)
    found.see()
    found.between = {1: lambda: blob.write_bytes(copy)}
    return found


@situation("a secret answer is gone")
def _(found: Situation) -> Situation:
    found.run("key", "bug")
    found.look("resume", RUN)
    found.see()
    found.values = {"CALL": "key-1"}
    return found


@situation("a process of an effect still lives")
def _(found: Situation) -> Situation:
    found.run("pay:1", "die", real=True)
    alive = subprocess.Popen(
        ["cat"], env={"CLEW_CALL": f"{RUN}:pay-1:c1#1", "PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    found.look("resume", RUN)
    found.look("resume", RUN, "--dry-run")
    found.see()
    found.between = {1: lambda: ended(alive)}
    found.finish = lambda: ended(alive)
    return found


@situation("the agent raised")
def _(found: Situation) -> Situation:
    return found.run("pay:1", "bug").see()


@situation("files were put back while it was paused")
def _(found: Situation) -> Situation:
    (found.place.folder / "note").write_text("old")
    found.run("note:new", "bug").look("restore", RUN, "k1", "--by", "ann")
    return found.see()


@situation("a command was cut off while it was paused")
def _(found: Situation) -> Situation:
    found.run("pay:1", "bug").look("steer", RUN, "look again", "--by", "ann", real=True)
    journal = found.place.journal()
    lines = journal.read_bytes().splitlines(keepends=True)
    assert b'"leg_ended"' in lines.pop()
    journal.write_bytes(b"".join(lines))
    (journal.with_suffix("") / "head.json").unlink()
    return found.see()


@situation("settled while it was paused")
def _(found: Situation) -> Situation:
    found.run("pay:1", "boom").look("settle", RUN, "did-not-happen", "--by", "ann", "--reason", "looked")
    return found.see()


@situation("it dies again and again")
def _(found: Situation) -> Situation:
    found.run("pay:1", "early-1", "early-2", "early-3", real=True)
    for _ in range(2):
        found.look("resume", RUN, real=True)
    found.look("resume", RUN)
    return found.see()


@situation("the agent does something else than before")
def _(found: Situation) -> Situation:
    found.run("pay:1", "bug")
    found.edit_agent("order=order)", "order=order + '0')")
    found.look("resume", RUN)
    found.see()
    found.between = {0: lambda: found.edit_agent("order=order + '0')", "order=order)")}
    return found


@situation("its loop used up its rounds")
def _(found: Situation) -> Situation:
    return found.run("loop:tired").see()


@situation("its loop does the same again and again")
def _(found: Situation) -> Situation:
    found.run("loop:same").see()
    found.between = {0: (found.place.folder / "mended").touch}
    return found


@situation("a limit of calls")
def _(found: Situation) -> Situation:
    return found.run("pay:1 pay:2", more=("--max-calls", "1")).see()


@situation("a limit of tokens or cost, and no usage")
def _(found: Situation) -> Situation:
    return found.run("turn:1 pay:1", more=("--max-tokens", "100")).see()


@situation("a limit of time")
def _(found: Situation) -> Situation:
    return found.run("pay:1", more=("--timeout", "0")).see()


@situation("on request")
def _(found: Situation) -> Situation:
    live = holding(found)
    asking = found.place.start("pause", RUN, "--by", "ann", "--reason", "lunch")
    inbox = found.place.home / "runs" / RUN / "inbox"
    while not any(inbox.glob("*.json")):
        os.sched_yield()
    found.hear(live.end())
    asking.end("")
    return found.see()


@situation("Ctrl-C or SIGTERM")
def _(found: Situation) -> Situation:
    live = holding(found)
    live.signal(signal.SIGTERM)
    found.hear(live.end())
    return found.see()


@situation("an approval is wanted")
def _(found: Situation) -> Situation:
    return found.run("buy:1").see()


@situation("approved, not gone on")
def _(found: Situation) -> Situation:
    found.run("buy:1")
    found.look("approve", RUN, "--by", "ann", "--reason", "looked")
    return found.see()


@situation("a person said no")
def _(found: Situation) -> Situation:
    found.run("buy:1")
    found.look("deny", RUN, "--by", "ann", "--reason", "wrong account")
    found.codes.append(found.home.result(RUN).exit_code)
    return found.see()


@situation("the tool of an approval is gone")
def _(found: Situation) -> Situation:
    found.run("buy:1")
    found.look("approve", RUN, "--by", "ann", "--reason", "looked")
    found.edit_agent("tools=[pay, report", "tools=[report")
    found.look("resume", RUN)
    found.between = {0: lambda: found.edit_agent("tools=[report", "tools=[pay, report")}
    return found.see()


@situation("settled, not gone on")
def _(found: Situation) -> Situation:
    found.run("pay:1", "die", real=True)
    found.look("settle", RUN, "did-not-happen", "--by", "ann", "--reason", "no transfer")
    return found.see()


@situation("over, with an effect in doubt")
def _(found: Situation) -> Situation:
    found.run("pay:1", "die", real=True)
    found.look("abort", RUN, "--by", "ann", "--reason", "wrong file")
    found.codes.append(found.home.result(RUN).exit_code)
    return found.see()


@situation("the machine was restarted")
def _(found: Situation) -> Situation:
    found.run("pay:1", "die", real=True)
    found.place.raise_flag("early-1")
    found.look("run", "agent.py:settle", "pay:2", "--run-id", OTHER, real=True)
    found.look("ls")
    return found
