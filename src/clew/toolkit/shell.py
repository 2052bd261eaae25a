"""A shell command as a tool. It returns when all that the command started has ended; else nobody knows what it did."""

import asyncio
import codecs
import re
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from clew.errors import NothingHappened, Refused
from clew.runtime.paths import WORKSPACE
from clew.runtime.pool import in_own_thread
from clew.runtime.tools import Call, Failed, Tool
from clew.stores.base import CommandEnd, Order

DEFAULT_BYTES = 1 << 16
MOST_BYTES = 16 << 20
MOST_TIMEOUT_S = 86400.0
_NO_TEXT = re.compile("[\udc80-\udcff]")


class Unfinished(RuntimeError):
    """The command did not come to its own end, or something it started could not be ended: its effect is unknown."""


@partial(Tool, effect="process", builtin=True, paths=WORKSPACE)
async def shell(
    call: Call, command: str, folder: str = ".", timeout_s: float = 120.0, max_bytes: int = DEFAULT_BYTES
) -> dict[str, Any] | Failed:
    r"""Run a command with `/bin/sh -c` in the workspace; all that it starts is ended before this returns. Linux only.

    It has the environment of this program, an empty input and no terminal, in a session and process group of its own.
    When its first process has ended, what it left behind is told to end (SIGTERM, after a second SIGKILL), background
    processes and those with a session of their own included; so a service cannot be started this way. What others
    start for it (a container engine, `at`, `ssh`) is not its own and is not seen. If this program dies, the command
    is killed.

    How the workspace stands is kept before and looked at behind it: `clew diff` shows what the command changed there,
    `clew restore` takes it back, and both say what is not covered (ignored files, those above a size).

    A command that runs out of time, or whose run is aborted or cancelled, is ended too: what it had done by then is
    unknown.

    Args:
        call: Whose workspace it is; its key and attempt are in the command's environment as `CLEW_CALL`.
        command: For the POSIX shell. Write `bash -c '…'` where you need another one.
        folder: Relative to the workspace; where the command begins. It is not confined to it.
        timeout_s: Seconds it may take.
        max_bytes: Of its output, stdout and stderr together in the order in which they came, so many are kept.

    Returns:
        `output`: the text, undecodable bytes as `\xNN` (then `escapedBytes` says how many); with more than
        `max_bytes` of output, its beginning, `outputEnd` its end, and `cutBytes` says how many between them are cut.
        `exitCode`, or null and `signal`; `sizeBytes` of the whole output; `durationMs`; `ended`: what was left
        behind and had to be ended. An exit code other than 0 is a failure with this value.

    Raises:
        NothingHappened: before anything ran.
        Unfinished: the end was not its own, or something lives still (named with pid, command and start); unknown.
    """
    order = _order(call, command, folder, timeout_s, max_bytes)
    cancelled = threading.Event()
    stop = _reasons(call, cancelled, timeout_s)
    ended = in_own_thread(lambda: call.processes.run(order, stop), "shell")
    met: asyncio.CancelledError | None = None
    while not ended.done():
        try:
            await asyncio.wait([ended])
        except asyncio.CancelledError as struck:
            met = struck
            cancelled.set()
    try:
        # What had come to its own end before it was cancelled is known, and is told.
        return _told(ended.result())
    except Refused as refused:
        raise NothingHappened(refused.message) from None
    except Unfinished as unfinished:
        if met is not None:
            raise met from unfinished
        raise


def _order(call: Call, command: str, folder: str, timeout_s: float, max_bytes: int) -> Order:
    if not command.strip():
        raise NothingHappened("the command is empty")
    if not 0 < timeout_s <= MOST_TIMEOUT_S:
        raise NothingHappened(f"timeout_s is {timeout_s}; it may be more than 0 and at most {MOST_TIMEOUT_S:g}")
    if not 1 <= max_bytes <= MOST_BYTES:
        raise NothingHappened(f"max_bytes is {max_bytes}; it may be 1 to {MOST_BYTES}")
    try:
        place = call.workspace.resolve(folder)
    except Refused as refused:
        raise NothingHappened(refused.message) from None
    half = max_bytes // 2
    return Order(command, place, f"{call.key}#{call.attempt}", max_bytes - half, half, call.leg)


def _reasons(call: Call, cancelled: threading.Event, timeout_s: float) -> Callable[[], str]:
    """Why the command is to end now, empty while it may go on."""
    until_s = time.monotonic() + timeout_s

    def stop() -> str:
        if cancelled.is_set():
            return "it was cancelled"
        if time.monotonic() >= until_s:
            return f"it took longer than {timeout_s:g} s"
        return "the run is to end at once, or the call's time is up" if call.called_off else ""

    return stop


def _told(end: CommandEnd) -> dict[str, Any] | Failed:
    """What is known of a command that has ended.

    Raises:
        Unfinished: how it ended is not known, or not all of it has.
    """
    if end.left:
        raise Unfinished(f"not all of the command's processes could be ended; alive: {', '.join(end.left)}")
    if not end.watched:
        raise Unfinished("the process that watched over the command was killed; nobody saw how the command ended")
    if end.stopped:
        raise Unfinished(f"{end.stopped}; the command was ended with all of its processes")
    value = {**_output(end), "exitCode": end.exit_code, "durationMs": end.duration_ms, "sizeBytes": end.size_bytes}
    if end.signal_name:
        value["signal"] = end.signal_name
    if end.ended:
        value["ended"] = list(end.ended)
    if end.exit_code == 0:
        return value
    how = f"was killed by {end.signal_name}" if end.signal_name else f"ended with exit code {end.exit_code}"
    return Failed(f"the command {how}", value)


def _output(end: CommandEnd) -> dict[str, Any]:
    if end.size_bytes == len(end.head) + len(end.tail):
        text, escaped = _text(end.head + end.tail)
        return {"output": text, **({"escapedBytes": escaped} if escaped else {})}
    head, tail = _whole_characters(end.head, end.tail)
    (text, escaped), (last, escaped_last) = _text(head), _text(tail)
    told: dict[str, Any] = {"output": text, "outputEnd": last, "cutBytes": end.size_bytes - len(head) - len(tail)}
    return {**told, **({"escapedBytes": escaped + escaped_last} if escaped + escaped_last else {})}


def _whole_characters(head: bytes, tail: bytes) -> tuple[bytes, bytes]:
    """Both sides of a cut without the characters that it went through."""
    decoding = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    decoding.decode(head)
    begun = next((at for at, byte in enumerate(tail[:4]) if byte & 0xC0 != 0x80), 0)
    return head[: len(head) - len(decoding.getstate()[0])], tail[begun:]


def _text(data: bytes) -> tuple[str, int]:
    r"""UTF-8 as text, and how many bytes were none and are written as `\xNN`."""
    text = data.decode("utf-8", "surrogateescape")
    return _NO_TEXT.subn(lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", text)
