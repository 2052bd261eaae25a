"""Commands from other processes, one file each, and their answers. What a command means is not known here."""

from collections.abc import Sequence
from pathlib import Path

from clew.core.ids import check_id
from clew.disk import files
from clew.errors import ClewError
from clew.stores.base import Command, CommandAnswer
from clew.stores.published import decode, encode
from clew.stores.refusals import control_conflict, corrupt_file

_LIMIT = 1 << 20
_INBOX = "inbox"
_ANSWER = ".answer.json"
_COMMAND = ".json"


class FileInbox:
    """The inbox of one run: `inbox/<controlId>.json`, answered by `<controlId>.answer.json`. Nothing is ever deleted.

    Made for one look below `runs`, of which its maker knows that it is no link.

    Source:
        DESIGN §4 and §6 "Control from another process".
    """

    def __init__(self, runs: Path, run_id: str) -> None:
        self._run = runs / run_id
        self._run_id = run_id

    def post(self, command: Command) -> None:
        """Publish a command; the same one again is a no-op.

        Raises:
            Refused: `control_conflict` when its id is used for another command.
        """
        path = self._path(command.control_id, _COMMAND)
        for folder in (path.parent.parent, path.parent):
            files.make_folder(folder)
        if not files.publish_new(path, encode(command)) and self._read(path) != command:
            raise control_conflict(self._run_id, command.control_id)

    def pending(self) -> list[Command]:
        """Readable commands without an answer, by control id."""
        found = (self._read(path) for path in self._unanswered())
        return [command for command in found if command is not None]

    def unreadable(self) -> list[str]:
        """Paths of command files that hold no command of this run under their id. They stay where they are."""
        return [str(path) for path in self._unanswered() if self._read(path) is None]

    def answer(self, answer: CommandAnswer) -> None:
        """Publish an answer; a later one replaces it (accepted, then applied)."""
        path = self._path(answer.control_id, _ANSWER)
        for folder in (path.parent.parent, path.parent):
            files.make_folder(folder)
        files.publish(path, encode(answer))

    def answered(self, control_id: str) -> CommandAnswer | None:
        """The answer to a command, once there is one.

        Raises:
            Corrupt: `control_answer_corrupt`.
        """
        path = self._path(control_id, _ANSWER)
        data = files.read_bytes(path, _LIMIT)
        if data is None:
            return None
        try:
            return decode(data, CommandAnswer)
        except ValueError as error:
            raise corrupt_file(str(path), "control_answer_corrupt", f"it holds no answer: {error}") from error

    def _unanswered(self) -> Sequence[Path]:
        """Whatever lies there under the name of a command, a legal id or not."""
        folder = files.unlinked(self._run) / _INBOX
        names = files.list_unlinked(folder)
        if not names:
            return ()
        answered = {name.removesuffix(_ANSWER) for name in names if name.endswith(_ANSWER)}
        commands = {name.removesuffix(_COMMAND) for name in names if name.endswith(_COMMAND) and name.count(".") == 1}
        return [folder / f"{name}{_COMMAND}" for name in sorted(commands - answered)]

    def _read(self, path: Path) -> Command | None:
        try:
            check_id(path.name.removesuffix(_COMMAND), "control")
            command = decode(files.read_bytes(path, _LIMIT) or b"", Command)
        except (ValueError, ClewError):
            return None
        ours = command.run_id == self._run_id and command.control_id == path.name.removesuffix(_COMMAND)
        return command if ours else None

    def _path(self, control_id: str, ending: str) -> Path:
        check_id(control_id, "control")
        return files.below(files.unlinked(self._run), _INBOX) / f"{control_id}{ending}"
