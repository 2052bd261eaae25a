"""What the commands of `clew session` do. Only `migrate` and `salvage --to` change anything. Imports no agent."""

import contextlib
import shlex
from collections.abc import Iterator
from typing import Any

import msgspec

from clew.cli.desk import Desk
from clew.core.session.lines import dump
from clew.core.session.transcripts import Transcript
from clew.errors import ClewError, Corrupt, UsageError
from clew.runtime.examined import Examined
from clew.runtime.home import Home
from clew.views.plain import count_text, one_line
from clew.views.sessions import (
    entries_text,
    found_lines,
    page_json,
    page_lines,
    salvage_lines,
    session_lines,
    transcript_lines,
)

EXIT_CORRUPT = Corrupt.exit_code


def ls(desk: Desk, *, full: bool) -> int:
    """A line for each session."""
    rows = desk.home().require().sessions(full=full)
    if desk.options.json:
        desk.screen.answer_json(rows)
        return 0
    found = list(rows)
    if not found:
        desk.screen.tell("no sessions yet; a run begins one with --session ID")
    desk.screen.answer_lines(session_lines(found))
    return 0


def show(desk: Desk, session: str, lane: str) -> int:
    """The conversation as it is now."""
    with _named(session):
        examined = _home(desk, session).examine_session(session)
        view, judgement = examined.view(lane), examined.judgement()
    if desk.options.json:
        desk.screen.answer_json(page_json(view, judgement))
    else:
        desk.screen.answer_lines(page_lines(view, judgement))
    return 0


def verify(desk: Desk, session: str | None) -> int:
    """One, or all of the home: 12 when one of them is damaged, 4 when one is of no kind that can be read."""
    if session is not None:
        with _named(session):
            found = _home(desk, session).judge_file(session)
        if desk.options.json:
            desk.screen.answer_json(verdict_json(session, found))
        else:
            desk.screen.answer_lines(_verdict_lines(session, found))
        return _code(found)
    home, codes, verdicts = desk.home().require(), [0], []
    for session_id in sorted(home.session_store.ids()):
        try:
            with _named(session_id):
                examined = home.examine_session(session_id)
        except ClewError as error:
            codes.append(error.exit_code)
            verdicts.append({"session": session_id, **error.as_json()})
            if not desk.options.json:
                head = f"{_word(error)}  {session_id}: {error.message} [{error.code}]"
                desk.screen.answer_lines([head, f"  next: {one_line(error.next, 500)}"])
        else:
            codes.append(_code(examined))
            verdicts.append(verdict_json(session_id, examined))
            if not desk.options.json:
                desk.screen.answer_lines(_verdict_lines(session_id, examined))
    if not verdicts:
        desk.screen.tell("no sessions yet: nothing to verify")
    if desk.options.json:
        desk.screen.answer_json(verdicts)
    return EXIT_CORRUPT if EXIT_CORRUPT in codes else max(codes)


def _word(error: ClewError) -> str:
    return "CORRUPT" if error.exit_code == EXIT_CORRUPT else "UNREADABLE"


def _code(found: Examined | Transcript) -> int:
    """A torn end of ours is mended by its next writer; one of another program's file is for a person."""
    if isinstance(found, Transcript) or found.state.ending != "torn" or found.state.format == "v4a":
        return 0
    return EXIT_CORRUPT


def verdict_json(session: str, found: Examined | Transcript) -> dict[str, Any]:
    """What was found, with line and byte of each thing."""
    if isinstance(found, Transcript):
        told: dict[str, Any] = msgspec.to_builtins(found)
        return {"session": session, **told}
    state = found.state
    return {
        "session": session,
        "place": found.place,
        "format": state.format,
        "entries": state.entries,
        "bytes": found.size_bytes,
        "sha256": found.sha256,
        "ending": state.ending,
        "tornBytes": state.torn_bytes,
        **msgspec.to_builtins(found.judgement()),
    }


def _verdict_lines(session: str, found: Examined | Transcript) -> list[str]:
    if isinstance(found, Transcript):
        return list(transcript_lines(found))
    state = found.state
    word = "OK" if _code(found) == 0 else "DAMAGED"
    size = f"{entries_text(state.entries)}, {count_text(found.size_bytes, 'byte')}"
    return [f"{word}  {session}: {state.format}, {size}, ends {state.ending}", *found_lines(found.judgement())]


def migrate(desk: Desk, session: str) -> int:
    """One session of version 1 to 3 becomes one of ours."""
    home = desk.home()
    if home.is_path(session):
        raise _not_here(home, session)
    with _named(session):
        done = home.require().migrate_session(session)
    if desk.options.json:
        desk.screen.answer_json(msgspec.to_builtins(done))
    elif not done.migrated:
        desk.screen.answer_lines([f"{done.session_id} is of format v4a already; nothing was changed"])
    else:
        what = f"{done.source_format} to v4a, {entries_text(done.entries)}"
        what = f"{what}, shows {count_text(done.view, 'message')} as before"
        kept = f"  every byte of the source is kept in {done.backup}"
        desk.screen.answer_lines([f"{done.session_id}: {what}", kept])
    return 0


def salvage(desk: Desk, session: str, to: str | None) -> int:
    """Say what can be saved of a session, and save it in another file when one is named."""
    saved = _home(desk, session).salvage_session(session, to)
    if desk.options.json:
        told = msgspec.to_builtins(msgspec.structs.replace(saved, data=b""))
        told.pop("data")
        desk.screen.answer_json({"session": session, "to": to, **told})
    else:
        desk.screen.answer_lines(salvage_lines(saved))
        desk.screen.tell("nothing was written; name a file with --to" if to is None else f"written to {to}")
    return 0


def export(desk: Desk, session: str, lane: str, *, for_model: bool) -> int:
    """Each message of the conversation as a line of JSON."""
    home = _home(desk, session)
    if for_model:
        messages: list[Any] = list(home.project_session(session, lane).messages)
    else:
        with _named(session):
            messages = [each.message for each in home.examine_session(session).view(lane).messages]
    for message in messages:
        # As it is stored: numbers beyond a float and lone surrogates as they stand there.
        desk.screen.answer_bytes(dump(message) + b"\n")
    return 0


def _not_here(home: Home, path: str) -> ClewError:
    """A file that lies elsewhere is read there and never changed; a home's session is what is migrated."""
    with _named(path):
        session_id = home.examine_session(path).state.id
    folder, name = home.path / "sessions", shlex.quote(path)
    return UsageError(
        f"{path!r} is read where it lies; what is migrated is a session of a home",
        code="invalid_session_id",
        next=f"Put a copy there: `mkdir -p {shlex.quote(str(folder))} && "
        f"cp -n {name} {shlex.quote(str(folder / session_id))}.jsonl`; then `clew session migrate {session_id}`.",
        path=path,
        session=session_id,
    )


@contextlib.contextmanager
def _named(session: str) -> Iterator[None]:
    """In what is advised inside stands the session as it was typed."""
    try:
        yield
    except Corrupt as error:
        error.next = error.next.replace("salvage SESSION", f"salvage {shlex.quote(session)}")
        raise


def _home(desk: Desk, session: str) -> Any:
    """A file that is named by its path is read without a home."""
    home = desk.home()
    return home if home.is_path(session) else home.require()
