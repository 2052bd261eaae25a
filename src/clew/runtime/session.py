"""A session that lives: one writer, its end mended when it is opened, each line judged, kept, then known. Blocking.

What a session is, `core.session` says; how runs use one is in `talking`.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from clew.core.codec import MAX_APPEND
from clew.core.session.calls import calls_in
from clew.core.session.judging import judge
from clew.core.session.lines import BadLine
from clew.core.session.projecting import project
from clew.core.session.reading import SessionReader
from clew.core.session.state import MAIN, SessionState
from clew.core.session.torn import marked
from clew.core.session.values import Judgement, Projection, Said, View
from clew.core.session.viewing import view
from clew.core.session.writing import (
    Draft,
    compaction,
    compose,
    entry,
    header_line,
    label,
    message,
    message_id,
    move,
    stands,
    tail_start,
    title,
)
from clew.errors import NotFound, Refused
from clew.runtime.clock import Clock
from clew.runtime.mending import read_mended
from clew.runtime.migrating import migrate_held
from clew.runtime.windows import reading
from clew.stores.base import SessionStore, SessionWriter

_TRIES = 3


class CoreMindSession:
    """One conversation with its only writer. Lives until it is closed; a `with` closes it.

    Nothing of its history is held in memory but where each entry stands.

    Attributes:
        is_new: It was born by this opening.

    Source:
        DESIGN §8; reference/sessions.md §6.1 and §7.
    """

    def __init__(
        self, writer: SessionWriter, reader: SessionReader, state: SessionState, clock: Clock, *, is_new: bool
    ) -> None:
        self.is_new = is_new
        self._writer = writer
        self._reader = reader
        self._state = state
        self._clock = clock
        self._one_at_a_time = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    # What it is.

    @property
    def id(self) -> str:
        """The session's id."""
        return self._writer.session_id

    @property
    def watermark(self) -> int:
        """How far it has come: 0 when nothing was said, and it grows with each entry."""
        return self._state.sequence

    @property
    def created_ms(self) -> int:
        """When it was begun, in milliseconds since 1970, by its header: what tells it from another of its name."""
        return int(self._state.header.value["createdAt"])

    def has(self, entry_id: str) -> bool:
        """Is there such an entry?"""
        return entry_id in self._state.ids

    @property
    def leaf(self) -> str | None:
        """The entry that the next one would follow on the main lane."""
        return self._state.name_of(self._state.lanes[MAIN])

    @property
    def lanes(self) -> dict[str, str | None]:
        """The entry at which each lane stands."""
        return {name: self._state.name_of(node) for name, node in self._state.lanes.items()}

    @property
    def poisoned(self) -> bool:
        """True after a failed or interrupted append, after `close`, and in a forked child."""
        return self._writer.poisoned

    def view(self, lane: str = MAIN) -> View:
        """What the conversation is now. `NotFound` (`unknown_lane`)."""
        with self._one_at_a_time:
            return view(self._state, reading(self._writer), lane=lane)

    def view_at(self, entry_id: str | None) -> View:
        """What the conversation was when this entry was said; before all of it for None.

        Raises:
            NotFound: `unknown_entry`.
        """
        with self._one_at_a_time:
            return view_at(self._state, reading(self._writer), entry_id)

    def projection(self, lane: str = MAIN) -> Projection:
        """What a model may be sent: every call with exactly one result. What is stored stays as it is."""
        return project(self.view(lane).messages)

    def judgement(self) -> Judgement:
        """Open operations, calls without a result, what is odd."""
        with self._one_at_a_time:
            return judge(self._state)

    # What is said.

    def append(self, *messages: Mapping[str, Any], ids: Sequence[str] = (), lane: str = MAIN) -> tuple[str, ...]:
        """Say something: one write and one sync, whole or not at all told to be there.

        Args:
            messages: Each with its `role`; members that are UNSET are left out.
            ids: One for each, made when left out. A message that stands under its id already is not said twice;
                other content under it is refused.
            lane: Where.

        Returns:
            The ids.

        Raises:
            Refused: `session_entry_conflict`, `session_line_refused`, `append_too_large`; nothing was written.
            UsageError: `value_not_json`. Storage: the writer is poisoned.
        """
        given = tuple(ids) or tuple(self._new_id() for _ in messages)
        self._keep([message(name, said, lane=lane) for name, said in zip(given, messages, strict=True)])
        return given

    def append_of(self, run_id: str, turn: str, position: int, said: Mapping[str, Any], *, lane: str = MAIN) -> str:
        """As `append`, under the id that is a run's own for this place in it: said again, it stands once."""
        return self.append(said, ids=[message_id(run_id, turn, position)], lane=lane)[0]

    def note(self, custom_type: str, data: Any, *, entry_id: str | None = None, lane: str = MAIN) -> str:
        """Keep something beside the conversation that no model sees."""
        name = entry_id or self._new_id()
        self._keep([entry("custom", name, lane=lane, customType=custom_type, data=data)])
        return name

    def set_model(self, provider: str, model_id: str, *, lane: str = MAIN) -> None:
        """From here on this model speaks."""
        self._keep([entry("model_change", self._new_id(), lane=lane, provider=provider, modelId=model_id)])

    def set_level(self, level: str, *, lane: str = MAIN) -> None:
        """From here on it thinks so hard: `off`, `low`, `medium`, `high`."""
        self._keep([entry("thinking_level_change", self._new_id(), lane=lane, thinkingLevel=level)])

    def set_tools(self, names: Sequence[str], *, lane: str = MAIN) -> None:
        """From here on these tools are offered."""
        self._keep([entry("active_tools_change", self._new_id(), lane=lane, activeToolNames=list(names))])

    def rename(self, text: str | None) -> None:
        """Give it a title; None takes it away."""
        self._keep([title(text)])

    def label(self, entry_id: str, text: str | None) -> None:
        """Put a word at an entry; None takes it away. `Refused` (`session_line_refused`) for an unknown one."""
        self._keep([label(entry_id, text)])

    def move(self, entry_id: str | None, *, lane: str = MAIN) -> None:
        """Let a lane go on from this entry, from the beginning for None; a lane that is not there is made."""
        self._keep([move(entry_id, lane=lane)])

    def compact(
        self, summary: str, *, keep: str | None = None, tokens_before: int | None = None, lane: str = MAIN, **own: Any
    ) -> str:
        """Put a summary in the place of what was said before: one record, published or not. All entries stay.

        Args:
            summary: What the model is told instead.
            keep: The first entry that stays behind it; earlier where it would part a call and its result. None: no one.
            tokens_before: Size of the context that it replaces, None when nobody counted.
            lane: Where.
            own: `details`, `usage`.

        Returns:
            The entry's id.

        Raises:
            Refused: `empty_summary`, `compaction_splits_call`; nothing was written.
            NotFound: `unknown_entry` when what is to stay is not in the view.
        """
        with self._one_at_a_time:
            said = self.view(lane).messages
            _require_results(said, self.id)
            tail = said[_start_of(said, keep, self.id) :]
            name = self._new_id()
            self._keep([compaction(name, summary, tail, tokens_before=tokens_before, lane=lane, **own)])
            return name

    def compact_when(
        self, summarise: Callable[[Sequence[Said]], str], *, tokens: int, window: int, reserve: int, keep: int = 4,
        lane: str = MAIN,
    ) -> str | None:  # fmt: skip
        """Compact once the context is larger than the window without its reserve; else nothing happens.

        Args:
            summarise: Makes the summary of the messages that go.
            tokens: Size of the context now.
            window: What the model takes.
            reserve: What must stay free of it.
            keep: So many of the last messages stay.
            lane: Where.

        Returns:
            The id of the summary, None when there was none to make.
        """
        if tokens <= window - reserve:
            return None
        said = self.view(lane).messages
        start = tail_start(said, max(0, len(said) - keep))
        if start == 0:
            return None
        first = said[start].entry_id if start < len(said) else None
        return self.compact(summarise(said[:start]), keep=first, tokens_before=tokens, lane=lane)

    def close(self) -> None:
        """Let the session go. Safe to call twice."""
        self._writer.close()

    def _new_id(self) -> str:
        """An id that nobody has, also where chance is set and begins anew with each opening."""
        while (name := self._clock.chance(8).hex()) in self._state.ids:
            pass
        return name

    def _keep(self, drafts: Sequence[Draft]) -> None:
        """Validate, append, then apply, in this order and no other."""
        with self._one_at_a_time:
            read = reading(self._writer)
            new = [draft for draft in drafts if not stands(self._state, read, draft)]
            if not new:
                return
            data = self._encode(new)
            self._writer.append(data)
            try:
                self._reader.feed(data)
            except BaseException:
                self._writer.close()
                raise

    def _encode(self, drafts: Sequence[Draft]) -> bytes:
        try:
            batch = compose(self._state, drafts, at_ms=self._clock.now_ms())
        except BadLine as error:
            raise Refused(
                f"session {self.id!r} cannot go on so: {error.why}",
                code="session_line_refused",
                next="Nothing was written. Look at the session with `clew session show`.",
                session=self.id,
                reason=error.reason,
                ids=list(error.ids),
            ) from error
        data = marked(batch.data.split(b"\n")[:-1], self._state.sequence + 1)
        if len(data) > MAX_APPEND:
            raise Refused(
                f"an append of {len(data)} bytes to session {self.id!r} is too large",
                code="append_too_large",
                next=f"Say it in several parts of at most {MAX_APPEND} bytes, or keep what is large as a file.",
                session=self.id,
                bytes=len(data),
                limit=MAX_APPEND,
            )
        return data


def open_session(
    store: SessionStore, clock: Clock, session_id: str, *, cwd: str | Path, create: bool = True, wait_s: float = 2.0
) -> CoreMindSession:
    """Open a session for its one writer, or begin it; one of version 1 to 3 is migrated first.

    An end that an append which nobody acknowledged has left is kept beside the session and cut.

    Args:
        store: Where sessions are.
        clock: For times and ids.
        session_id: Which one.
        cwd: The folder that a new one is about.
        create: Begin it when it is not there.
        wait_s: So long another writer is waited for.

    Raises:
        UsageError: `invalid_session_id`. NotFound: `unknown_session`. Held: `session_open_locked`.
        Corrupt: `session_corrupt`; as `migrate_session`. Refused: `session_unsupported`; as `migrate_session`.
        Storage.
    """
    for _ in range(_TRIES):
        try:
            return _opened(store.open(session_id, wait_s=wait_s), clock, is_new=False)
        except NotFound:
            if not create:
                raise
        try:
            first = header_line(session_id, created_ms=clock.now_ms(), cwd=str(cwd))
            return _opened(store.create(session_id, first), clock, is_new=True)
        except Refused as fault:
            # Somebody else began it in between, or it is spelt otherwise.
            if fault.code != "session_id_conflict" or fault.facts.get("existing") != session_id:
                raise
    return _opened(store.open(session_id, wait_s=wait_s), clock, is_new=False)


def _opened(writer: SessionWriter, clock: Clock, *, is_new: bool) -> CoreMindSession:
    try:
        reader, state = read_mended(writer)
        if state.format != "v4a":
            migrate_held(writer)
            reader, state = read_mended(writer)
        return CoreMindSession(writer, reader, state, clock, is_new=is_new)
    except BaseException:
        writer.close()
        raise


def view_at(state: SessionState, read: Callable[[int, int], bytes], entry_id: str | None) -> View:
    """What a conversation was when an entry was said. `NotFound` (`unknown_entry`)."""
    node = -1 if entry_id is None else state.ids.find(entry_id)
    if node < 0 and entry_id is not None:
        raise unknown_entry(state.id, entry_id)
    lanes = state.lanes
    state.lanes = {**lanes, MAIN: node}
    try:
        return view(state, read)
    finally:
        state.lanes = lanes


def _start_of(said: Sequence[Said], keep: str | None, session_id: str) -> int:
    if keep is None:
        return len(said)
    for place, each in enumerate(said):
        if each.entry_id == keep:
            return tail_start(said, place)
    raise unknown_entry(session_id, keep)


def _require_results(said: Sequence[Said], session_id: str) -> None:
    """Refuse while results of the last calls are still to come: the summary would stand between them."""
    results = set[str]()
    for each in reversed(said):
        if each.role == "toolResult":
            results.add(each.message["toolCallId"])
            continue
        waiting = {call_id for call_id, _ in calls_in(each.message)} - results if each.role == "assistant" else set()
        if waiting:
            raise Refused(
                f"the summary of session {session_id!r} would stand between a call and its result",
                code="compaction_splits_call",
                next="Nothing was written. Summarise when every call has its result.",
                session=session_id,
                calls=sorted(waiting),
            )
        return


def unknown_entry(session_id: str, entry_id: str) -> NotFound:
    """There is no such entry, or it is not in this view."""
    return NotFound(
        f"session {session_id!r} shows no entry {entry_id!r}",
        code="unknown_entry",
        next="List its entries with `clew session show`.",
        session=session_id,
        entry=entry_id,
    )
