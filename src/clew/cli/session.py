"""The commands about conversations, as they are typed. What they do stands in `conversing`."""

from typing import Annotated

from cyclopts import App, Parameter

from clew.cli import conversing
from clew.cli.desk import attend
from clew.cli.root import DEFAULTS, Switch, app
from clew.cli.screen import Options

session = App(
    name="session",
    sort_key=11,
    help="""Conversations: list, show, check, migrate, save, export them.

SESSION is any unique part of a session's id, @last, or the path of a file.""",
)
app.command(session)


@session.command(sort_key=11.1, usage="Usage: clew session ls [OPTIONS]")
def ls(*, full: Annotated[bool, Switch] = False, options: Options = DEFAULTS) -> int:
    """List the sessions of the home: format, entries, size, title.

    Example: clew session ls

    Args:
        full: Read those above 4 MiB to their ends as well.
        options: What every command takes.
    """
    return attend(options, lambda desk: conversing.ls(desk, full=full))


@session.command(sort_key=11.2, usage="Usage: clew session show SESSION [OPTIONS]")
def show(
    session: Annotated[str, Parameter(name="SESSION")], /, *, lane: str = "main", options: Options = DEFAULTS
) -> int:
    """Show a conversation as it is now: what a model would see, its settings, and what is odd about it.

    Changes nothing, whatever is wrong with it.

    Example: clew session show talk --json

    Args:
        session: Any unique part of the session's id, @last, or the path of a file.
        lane: Which lane of it.
        options: What every command takes.
    """
    return attend(options, lambda desk: conversing.show(desk, session, lane))


@session.command(sort_key=11.3, usage="Usage: clew session verify [SESSION] [OPTIONS]")
def verify(session: Annotated[str | None, Parameter(name="SESSION")] = None, /, *, options: Options = DEFAULTS) -> int:
    """Check that sessions can be read to their ends: calls without results, double results, open operations.

    Names line and byte of each. By its path it also opens a transcript of Claude Code or a rollout of Codex. Changes
    nothing; ends with 12 when one is damaged, with 4 when it is of no kind that can be read.

    Example: clew session verify

    Args:
        session: Any unique part of the session's id, @last, or the path of a file; all sessions when left out.
        options: What every command takes.
    """
    return attend(options, lambda desk: conversing.verify(desk, session))


@session.command(sort_key=11.4, usage="Usage: clew session migrate SESSION [OPTIONS]")
def migrate(session: Annotated[str, Parameter(name="SESSION")], /, *, options: Options = DEFAULTS) -> int:
    """Make a session of version 1, 2 or 3 one of ours; every byte of it is kept first.

    The copy lies beside it, named by the version: SESSION.jsonl.v3.backup. What would not show the same is not
    published. Doing it again changes nothing.

    Example: clew session migrate talk

    Args:
        session: Any unique part of the session's id, or @last.
        options: What every command takes.
    """
    return attend(options, lambda desk: conversing.migrate(desk, session))


@session.command(sort_key=11.5, usage="Usage: clew session salvage SESSION [--to FILE] [OPTIONS]")
def salvage(
    session: Annotated[str, Parameter(name="SESSION")], /, *, to: str | None = None, options: Options = DEFAULTS
) -> int:
    """Save what can be read of a damaged session in a file of its own, and say every byte that is left out.

    Two records on one line are taken apart here and nowhere else. The session is not changed; without --to nothing is
    written.

    Example: clew session salvage talk --to saved.jsonl

    Args:
        session: Any unique part of the session's id, @last, or the path of a file.
        to: The new file; nothing that is there is replaced.
        options: What every command takes.
    """
    return attend(options, lambda desk: conversing.salvage(desk, session, to))


@session.command(sort_key=11.6, usage="Usage: clew session export SESSION [OPTIONS]")
def export(
    session: Annotated[str, Parameter(name="SESSION")],
    /,
    *,
    lane: str = "main",
    for_model: Annotated[bool, Switch] = False,
    options: Options = DEFAULTS,
) -> int:
    """Write the messages of a conversation to stdout, each as a line of JSON.

    Example: clew session export talk --for-model

    Args:
        session: Any unique part of the session's id, @last, or the path of a file.
        lane: Which lane of it.
        for_model: As a model may be sent it: every call with exactly one result, an interrupted one says so.
        options: What every command takes.
    """
    return attend(options, lambda desk: conversing.export(desk, session, lane, for_model=for_model))
