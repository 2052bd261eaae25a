"""What external tools and models answer in a trial, whose bodies are not run: from a file, or from a recorded run."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from clew.core.answers import read_answer
from clew.core.calls import AnswerRef, CallState
from clew.core.canon import fingerprint
from clew.core.codec import strict_json
from clew.errors import UsageError
from clew.runtime.home import Home

TURNS: Final = "turns"
_MEMBERS: Final = {"arguments", "request", "answer", "error"}


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """One answer: of a tool, or of a model where `tool` is empty. `asked` is the SHA-256 of arguments or request.

    `arguments` are known of what was recorded, unless a secret is left out of them.
    """

    tool: str = ""
    step: str = ""
    asked: str = ""
    answer: Any = None
    error: str = ""
    kind: str = ""
    arguments: Any = None


class Unanswered(Exception):
    """Nobody said what this is answered with."""


class Answers:
    """All that is known of what is answered.

    The nearest counts: the same step with the same arguments, the same arguments, one that is for any arguments, then
    of a recorded run the one of that step, and at last that tool's last answer.
    """

    def __init__(self, told: Iterable[Told] = ()) -> None:
        self.told = tuple(told)

    def of_call(self, tool: str, step: str, arguments: Any) -> Told:
        """What a tool answers. `Unanswered` when nothing is known of it."""
        known = [each for each in self.told if each.tool == tool]
        return _nearest(known, step, fingerprint(arguments), tool)

    def of_turn(self, turn: str, request: Any) -> Told:
        """What a model answers. `Unanswered`."""
        known = [each for each in self.told if not each.tool]
        return _nearest(known, turn, fingerprint(request), "a model")


def _nearest(known: list[Told], step: str, asked: str, whom: str) -> Told:
    for fits in (
        lambda each: each.step == step and each.asked == asked,
        lambda each: each.asked == asked,
        lambda each: not each.asked and each.step in ("", step),
        lambda each: each.step == step,
        lambda each: bool(each.step),
    ):
        found = [each for each in known if fits(each)]
        if found:
            return found[0] if found[0].step in ("", step) else found[-1]
    raise Unanswered(whom)


def save(answers: Answers, path: Path) -> None:
    """Write them where each leg reads them."""
    path.write_bytes(msgspec.json.encode(answers.told))


def load(path: str) -> Answers:
    """What `save` wrote; nothing where nothing was written."""
    return Answers(msgspec.json.decode(Path(path).read_bytes(), type=list[Told]) if path else ())


def read_file(path: Path) -> Answers:
    """The answers of `--answers FILE`.

    Shape: an object of tools by name, `{"pay": [{"arguments": {"order": "7"}, "answer": {…}}, {"answer": {…}}]}`; an
    entry has `answer` or `error` (a text), and counts for those `arguments` or, without them, for all. `turns` is a
    list of models' answers, each with its `request` or, without, one turn after the other.

    Raises:
        UsageError: `invalid_answers`, with the place.
    """
    try:
        given = strict_json(path.read_bytes())
    except (OSError, ValueError) as fault:
        raise _invalid(path, str(fault)) from fault
    if type(given) is not dict:
        raise _invalid(path, "it is no object")
    return Answers(told for tool, answers in given.items() for told in entries(path, tool, answers))


def document(answers: Answers) -> bytes:
    """Answers in the shape of `--answers FILE`. A model's requests are not recorded, so its answers stand in order."""
    told: dict[str, list[dict[str, Any]]] = {}
    for each in answers.told:
        entry = {"error": each.error} if each.error else {"answer": each.answer}
        given = {} if each.arguments is None else {"arguments": each.arguments}
        told.setdefault(each.tool or TURNS, []).append(given | entry)
    return msgspec.json.format(msgspec.json.encode(told), indent=2) + b"\n"


def entries(path: Path | str, tool: str, given: Any) -> Iterator[Told]:
    """The answers of one tool of such a document; `path` is named in errors."""
    if type(given) is not list:
        raise _invalid(path, f"{tool}: it is no list")
    for number, entry in enumerate(given, 1):
        at = f"{tool}, entry {number}"
        if type(entry) is not dict or not ({"answer", "error"} & entry.keys()) or entry.keys() - _MEMBERS:
            raise _invalid(path, f"{at}: it needs `answer` or `error`, beside `arguments` (of a turn: `request`)")
        is_turn = tool == TURNS
        about = entry.get("request" if is_turn else "arguments", msgspec.UNSET)
        asked = "" if about is msgspec.UNSET else fingerprint(about)
        step = f"turn-{number}" if is_turn and not asked else ""
        if type(entry.get("error", "")) is not str:
            raise _invalid(path, f"{at}: its error is no text")
        yield Told("" if is_turn else tool, step, asked, entry.get("answer"), entry.get("error", ""))


def _invalid(path: Path | str, why: str) -> UsageError:
    return UsageError(
        f"the answers in {str(path)!r} cannot be used: {why}",
        code="invalid_answers",
        next='Write {"TOOL": [{"arguments": {…}, "answer": …}], "turns": [{"answer": …}]}; see docs/certify.md.',
        path=str(path),
    )


def of_run(home: Home, run_id: str) -> Answers:
    """What was answered in a recorded run and its children, by models and by tools that are not run in a trial.

    Raises:
        NotFound, Corrupt: as for reading a run.
    """
    reader = home.reader
    state = reader.see(run_id).state
    told = [
        _told(
            home,
            run_id,
            call.answer,
            tool=call.tool,
            step=call.step_id,
            asked=call.fingerprint,
            arguments=_arguments(home, run_id, call),
        )
        for call in state.calls.values()
        if call.answer is not None and not _runs_here(call)
    ]
    told += [
        _told(home, run_id, turn.answer, step=turn.turn_id, asked=turn.fingerprint)
        for turn in state.turns.values()
        if turn.answer is not None
    ]
    for child in state.delegations.values():
        told += of_run(home, child.child_id).told
    return Answers(told)


def _runs_here(call: CallState) -> bool:
    """Is its tool run in a trial? One that looks must see the scratch workspace, not that of the recorded run."""
    return call.capability is not None and call.capability.effect in ("none", "workspace")


def _arguments(home: Home, run_id: str, call: CallState) -> Any:
    """The arguments of a call; None where what is recorded is not all of them."""
    arguments = home.reader.store.record_at(run_id, call.position).payload["event"].get("args")
    return arguments if fingerprint(arguments) == call.fingerprint else None


def _told(home: Home, run_id: str, ref: AnswerRef, **whom: Any) -> Told:
    reader = home.reader
    event = reader.store.record_at(run_id, ref.position).payload["event"]
    answer = read_answer(event, None if ref.blob is None else reader.blobs.get(ref.blob))
    if answer.error is None:
        return Told(**whom, answer=answer.value)
    return Told(**whom, answer=answer.error.value, error=answer.error.message or "failed", kind=answer.error.kind)
