"""A process that runs one agent of this name until it is aborted: `leaver.py HOME RUN WORLD ADDRESS`.

Each world begins an effect that goes on by itself, tick by tick, in the file `ticks`, until it is really stopped.
"""

import asyncio
import os
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

import clew

TICKER = """
import sys, time
print("up", flush=True)
while True:
    with open(sys.argv[1], "a") as book:
        book.write(".")
    time.sleep(0.005)
"""
AWAY = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        exec(sys.argv[2])
"""


def tick() -> None:
    """One more effect."""
    with Path("ticks").open("a") as book:
        book.write(".")


def up() -> None:
    print("at work", flush=True)


@clew.tool(effect="external")
async def in_a_task() -> None:
    up()
    while True:
        tick()
        await asyncio.sleep(0.005)


@clew.tool(effect="external")
def in_a_thread(call: clew.Call) -> None:
    up()
    while not call.called_off:
        tick()


@clew.tool(effect="external")
def in_a_deaf_thread(call: clew.Call) -> None:
    up()
    while True:
        tick()
        threading.Event().wait(0.005)


def ticking(command: list[str], **how: Any) -> None:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **how) as process:
        assert process.stdout is not None
        process.stdout.readline()
        up()
        process.stdout.read()


@clew.tool(effect="external")
def in_a_process(call: clew.Call) -> None:
    ticking([sys.executable, "-c", TICKER, "ticks"], env=call.environment())


@clew.tool(effect="external")
def in_a_grandchild(call: clew.Call) -> None:
    ticking([sys.executable, "-c", AWAY, "ticks", TICKER], env=call.environment())


@clew.tool(effect="external")
def in_an_unmarked_grandchild(call: clew.Call) -> None:
    ticking([sys.executable, "-c", AWAY, "ticks", TICKER])


@clew.tool(effect="external")
def in_a_request() -> None:
    up()
    urllib.request.urlopen(os.environ["LEAVER_SERVER"]).read()


EVERY = (
    in_a_task,
    in_a_thread,
    in_a_deaf_thread,
    in_a_process,
    in_a_grandchild,
    in_an_unmarked_grandchild,
    in_a_request,
)
TOOLS = {tool.name: tool for tool in EVERY}


@clew.agent(tools=list(TOOLS.values()))
async def leave(run: clew.Run, prompt: str) -> None:
    await run.call(TOOLS[prompt])


@clew.agent(tools=list(TOOLS.values()), name="leave_plainly")
def leave_plainly(run: clew.SyncRun, prompt: str) -> None:
    run.call(TOOLS[prompt])
