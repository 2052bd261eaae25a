"""What every command has at hand: the screen, the home, the reader's clock; and how a command ends."""

import contextlib
import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from clew.cli.screen import Options, Screen
from clew.core.records import Record
from clew.errors import ClewError, Storage
from clew.runtime.home import Home
from clew.runtime.recovery import Takeover
from clew.views.plain import When
from clew.views.rows import block, short_names
from clew.views.timeline import proof_lines

_REFUSALS: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO)


@dataclass(frozen=True)
class Desk:
    """One command at work. `home` is opened for an operator's act or for looking; `run` finds a run in it."""

    options: Options
    screen: Screen

    def home(self, takeover: Takeover = "refuse") -> Home:
        """The home that is meant; it may not exist yet."""
        return Home(self.options.home, takeover=takeover)

    def when(self, home: Home) -> When:
        """Times on the clock of whoever looks."""
        return When(home.reader.clock.now_ms(), datetime.astimezone)

    def block(self, home: Home, run_id: str) -> list[str]:
        """A run in a few lines, with what to do next."""
        row = home.reader.row(run_id)
        return block(row, short_names(home.reader.store.ids())[run_id], self.when(home))

    @contextlib.contextmanager
    def proof_of(self, home: Home, run_id: str) -> Iterator[None]:
        """Print by what proof the deed inside took the run over, if it did."""
        before = home.reader.see(run_id).state.sequence
        yield
        self.tell_proof(home, run_id, before)

    def tell_proof(self, home: Home, run_id: str, before: int) -> None:
        """Print the proof of each leg that was opened after record number `before`."""
        for record in home.reader.records(run_id):
            if record.sequence > before and record.kind == "resume":
                self.screen.tell(*proof_of_leg(record))


def proof_of_leg(record: Record) -> list[str]:
    """The proof that a leg's first record carries."""
    return proof_lines(record.payload.get("lockProof") or [])


def login(home: Home) -> str:
    """The name under which this person is logged in."""
    return str(home.reader.store.identity()["user"])


def attend(options: Options, deed: Callable[[Desk], int | None]) -> int:
    """Do a command and end as DESIGN §9 says: its exit code, or the error's."""
    screen = Screen(options)
    try:
        return deed(Desk(options, screen)) or 0
    except ClewError as error:
        screen.fail(error)
        return error.exit_code
    except KeyboardInterrupt:
        screen.tell("interrupted")
        return 130
    except OSError as fault:
        refused = _refused(fault) if fault.errno in _REFUSALS else _our_fault(fault)
        screen.fail(refused)
        return refused.exit_code
    except Exception as fault:  # noqa: BLE001  # the last line of defence: a fault of ours is told as one
        screen.fail(_our_fault(fault))
        return 1


def _refused(fault: OSError) -> ClewError:
    error = Storage(
        f"the machine refused: {fault}",
        code="machine_refused",
        next="Give this user access to what is named, or free space where the answer goes; then do it again.",
    )
    error.__cause__ = fault
    return error


def _our_fault(fault: Exception) -> ClewError:
    error = ClewError(
        f"this is a fault of clew itself: {type(fault).__name__}: {fault}",
        code="internal_error",
        next="Run it again with -vv and report the traceback; what is on disk is as it was acknowledged.",
    )
    error.__cause__ = fault
    return error
