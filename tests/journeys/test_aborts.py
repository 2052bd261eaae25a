"""Three hundred aborts of real commands: nothing happens behind the end of a run, or what may is named in it."""

import http.server
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.journeys.town import KEPT

LEAVER = Path(__file__).with_name("leaver.py")
PLAIN = ("in_a_thread", "in_a_process", "in_a_grandchild", "in_an_unmarked_grandchild", "in_a_request")
ASYNC = ("in_a_task", *PLAIN)
QUICK = [("leave", world) for world in ASYNC] + [("leave_plainly", world) for world in PLAIN]
LOOKS = 200

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in procfs")


class Deaf(http.server.BaseHTTPRequestHandler):
    """A server that takes a request, counts it, and does not answer before it is told to."""

    def do_GET(self) -> None:
        self.server.seen.set()  # type: ignore[attr-defined]  # its own
        self.server.go.wait()  # type: ignore[attr-defined]  # its own


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Its address."""
    service: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Deaf)
    service.seen, service.go, service.daemon_threads = threading.Event(), threading.Event(), True
    thread = threading.Thread(target=service.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{service.server_port}/"
    service.go.set()
    service.shutdown()
    service.server_close()


def aborted(folder: Path, agent: str, world: str, server: str) -> dict[str, Any]:
    """One run of the command, aborted by another process while its effect goes on."""
    words = [sys.executable, "-m", "clew.cli"]
    run = [*words, "run", f"{LEAVER}:{agent}", world, "--run-id", "r1", "--home", str(folder / ".clew")]
    env = {**KEPT, "LEAVER_SERVER": server, "PATH": os.environ.get("PATH", ""), "PYTHONDONTWRITEBYTECODE": "1"}
    home = clew.Home(folder / ".clew")
    with subprocess.Popen(run, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as live:
        assert live.stderr is not None
        while "at work" not in live.stderr.readline():
            assert live.poll() is None
        home.abort("r1", by="ann", reason="enough")
        row = home.reader.row("r1")
        while row["state"] not in ("failed", "completed"):
            row = home.reader.row("r1")
        ticks = [ticked(folder)]
        # Looked at so often that whoever still ticks has ticked.
        for _ in range(LOOKS):
            home.reader.row("r1")
        ticks.append(ticked(folder))
        named, code = row["message"], None
        if "still runs in this process" in named:
            live.send_signal(signal.SIGKILL)
        live.communicate(timeout=60)
        code = live.returncode
    return {
        "state": (row["state"], row["reason"]), "behind the end": ticks[1] - ticks[0], "named": named, "code": code,
        "receipts": [effect["status"] for effect in home.result("r1").snapshot["effects"]],
        "waiting": [effect["tool"] for effect in home.result("r1").waiting],
    }  # fmt: skip


def ticked(folder: Path) -> int:
    book = folder / "ticks"
    return book.stat().st_size if book.exists() else 0


def check(told: dict[str, Any]) -> None:
    """Nothing behind the end, or it is named; what was started is listed, and unknown unless its tool knows."""
    assert ("failed", "aborted") == told["state"], told
    assert told["behind the end"] == 0 or "r1:" in told["named"], told
    assert told["receipts"] in (["unknown"], ["started"], ["committed"]), told
    assert told["code"] in (3, -signal.SIGKILL), told


@pytest.mark.parametrize(("agent", "world"), QUICK, ids=str)
def test_an_abort_is_the_end_of_its_effects(tmp_path: Path, server: str, agent: str, world: str) -> None:
    """C45: the run has failed and says so; who reads that may start it again elsewhere."""
    told = aborted(tmp_path, agent, world, server)

    check(told)
    assert told["named"] == "" or world == "in_a_request"


@pytest.mark.journeys
@pytest.mark.parametrize("number", range(27))
def test_every_other_abort_is_too(tmp_path: Path, server: str, number: int) -> None:
    """Eleven at once, so that each is struck at another moment."""
    folders = [tmp_path / f"{agent}-{world}" for agent, world in QUICK]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(len(QUICK)) as pool:
        found = [pool.submit(aborted, folder, *one, server) for folder, one in zip(folders, QUICK, strict=True)]

    for told in found:
        check(told.result())


@pytest.mark.journeys
@pytest.mark.parametrize("agent", ["leave", "leave_plainly"])
@pytest.mark.parametrize("number", range(3))
def test_a_thread_that_hears_nothing_is_named(tmp_path: Path, server: str, agent: str, number: int) -> None:
    """Nobody can end it: its effect is unknown, and the run says that it goes on."""
    told = aborted(tmp_path, agent, "in_a_deaf_thread", server)

    check(told)
    assert agent == "leave_plainly" or "in_a_deaf_thread-1:c1#1: its body still runs" in told["named"]
