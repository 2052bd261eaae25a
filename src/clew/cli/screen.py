"""Where the command writes: the answer to stdout, progress and errors to stderr. Knows no run."""

import contextlib
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TextIO

from cyclopts import Group, Parameter
from rich.console import Console
from rich.text import Text

from clew.cli.typed import as_typed, with_home
from clew.core.answers import json_text
from clew.errors import ClewError

EVERYWHERE: Final = Group("Options of every command", sort_key=100)
_STYLES: Final = {
    "RUNNING": "cyan", "COMPLETED": "green", "OK": "green", "PAUSED": "yellow", "STOPPED": "yellow",
    "ABORTING": "yellow", "INTERRUPTED": "bold yellow", "OWNER ELSEWHERE": "bold yellow", "FAILED": "bold red",
    "UNREADABLE": "bold red", "CORRUPT": "bold red", "DAMAGED": "bold red",
}  # fmt: skip


@Parameter(name="*", group=EVERYWHERE)
@dataclass(frozen=True)
class Options:
    """What every command takes."""

    home: str | None = None
    """The home's folder itself (.clew). Left out: $CLEW_HOME, else found upwards from here."""

    json: Annotated[bool, Parameter(negative="", show_default=False)] = False
    """Answer as JSON on stdout; an error is one JSON line on stderr."""

    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="", show_default=False)] = False
    """No progress on stderr, only errors."""

    verbose: Annotated[int, Parameter(name=["--verbose", "-v"], count=True, show_default=False)] = 0
    """Every record as progress, and the agent's traceback; -vv also the traceback of errors."""

    color: Literal["auto", "always", "never"] = "auto"
    """Colour. Auto: on a terminal, unless NO_COLOR is set. No state is shown by colour alone."""

    no_input: Annotated[bool, Parameter(negative="", show_default=False)] = False
    """Never ask anything: what is missing is an error."""


class Screen:
    """stdout and stderr of one command. A reader that went away is no error: the deed counts, not the telling.

    Nor is a full disk behind stderr. One behind stdout is: the answer is what the command was asked for.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self._out = _console(sys.stdout, options.color)
        self._err = _console(sys.stderr, options.color)

    def answer(self, text: str) -> None:
        """The answer, byte for byte, and a line end."""
        _write(sys.stdout, f"{text}\n")

    def answer_bytes(self, data: bytes) -> None:
        """A part of the answer, as it is."""
        _write(sys.stdout.buffer, data)

    def answer_json(self, value: Any) -> None:
        """The answer as one line of JSON; an iterator, by itself or as a member, is written while it is read."""
        for piece in _json_pieces(value):
            _write(sys.stdout, piece, flush=False)
        self.answer("")

    def answer_lines(self, lines: Iterable[str]) -> None:
        """The answer in lines, their state words coloured."""
        _print(self._out, self._typed(lines))

    def tell(self, *lines: str) -> None:
        """Progress: for people only."""
        if not self.options.quiet and not self.options.json:
            _print(self._err, self._typed(lines))

    def _typed(self, lines: Iterable[str]) -> Iterator[str]:
        return (as_typed(line, self.options.home) for line in lines)

    def notice(self, text: str) -> None:
        """Progress out of a signal handler, which may have struck amid a write: past all buffers."""
        if not self.options.quiet and not self.options.json:
            with contextlib.suppress(OSError):
                os.write(2, f"clew: {text}\n".encode())

    def tell_run(self, run_id: str) -> None:
        """The run's id at once, so that whoever started it can find it again."""
        if self.options.json and not self.options.quiet:
            _write(sys.stderr, json_text({"runId": run_id}) + "\n")
        self.tell(f"run {run_id}")

    def tell_traceback(self, fault: BaseException) -> None:
        """The traceback of what the agent raised, when it was asked for."""
        if self.options.verbose and not self.options.json:
            _write(sys.stderr, "".join(traceback.format_exception(fault)))

    def fail(self, error: ClewError) -> None:
        """An error: what was found, and what to do next."""
        if self.options.verbose > 1:
            _write(sys.stderr, "".join(traceback.format_exception(error)))
        if self.options.json:
            _write(sys.stderr, json_text(error.as_json()) + "\n")
        else:
            advice = with_home(error.next, self.options.home)
            _write(sys.stderr, f"clew: {error.message} [{error.code}]\nnext: {advice}\n")


@contextlib.contextmanager
def others_to_stderr() -> Iterator[None]:
    """While an agent runs: what it and the processes it starts print goes to stderr, for stdout is the answer."""
    sys.stdout.flush()
    with contextlib.redirect_stdout(sys.stderr):
        try:
            out, err = sys.__stdout__.fileno(), sys.__stderr__.fileno()  # type: ignore[union-attr]  # caught below
        except (AttributeError, OSError):
            # Started without streams: there is nothing to keep apart.
            yield
            return
        kept = os.dup(out)
        os.dup2(err, out)
        try:
            yield
        finally:
            os.dup2(kept, out)
            os.close(kept)


def stand_in() -> None:
    """Open what this process was started without: else the next file that it opens, a journal too, gets the number.

    What is said there goes nowhere, and nothing comes from there.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != number:
                os.dup2(nothing, number)
                os.close(nothing)
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            stream = os.fdopen(number, "r" if number == 0 else "w", closefd=False)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def lenient() -> None:
    """Let every character through, whatever the terminal's encoding: what it lacks is written out."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _console(stream: TextIO, color: str) -> Console:
    forced: dict[str, Any] = {}
    if color == "always":
        forced = {"force_terminal": True, "no_color": False, "color_system": "standard"}
    elif color == "never":
        forced = {"color_system": None}
    return Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True, **forced)


def _print(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        if console.color_system is None or console.no_color:
            _write(console.file, f"{line}\n")
        else:
            with _still_there(console.file):
                console.print(_coloured(line), soft_wrap=True)


def _coloured(line: str) -> Text:
    text = Text(line)
    word = next((word for word in _STYLES if line == word or line.startswith(f"{word} ")), None)
    if word is not None:
        text.stylize(_STYLES[word], 0, len(word))
    return text


def _json_pieces(value: Any) -> Iterator[str]:
    if isinstance(value, Iterator):
        yield "["
        for number, item in enumerate(value):
            yield f",{json_text(item)}" if number else json_text(item)
        yield "]"
    elif type(value) is dict and any(isinstance(member, Iterator) for member in value.values()):
        for number, (name, member) in enumerate(value.items()):
            yield ("," if number else "{") + json_text(name) + ":"
            yield from _json_pieces(member)
        yield "}"
    else:
        yield json_text(value)


def _write(stream: Any, text: str | bytes, *, flush: bool = True) -> None:
    with _still_there(stream):
        stream.write(text)
        if flush:
            stream.flush()


@contextlib.contextmanager
def _still_there(stream: Any) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        # Point the stream at nothing, so that neither we nor the exit stumble again over what it still holds.
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)
        # Whoever read us went away, or there is no room for what is only told beside the answer. An answer that found
        # no room is none.
        if not isinstance(fault, BrokenPipeError) and stream is not sys.stderr:
            raise
