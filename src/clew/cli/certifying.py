"""`clew certify`: what is asked for, the question before anything real happens, and the report. Tries nothing."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clew.certify import answers, report, trial
from clew.certify.answers import Answers
from clew.certify.lives import Lived
from clew.cli.approving import YES
from clew.cli.desk import Desk
from clew.errors import UsageError
from clew.runtime.finding import absolute
from clew.views.timeline import line_of, log_lines

SERVER: Final = ("-m", "clew.cli.certifier")
BUDGET_S: Final = 300.0


@dataclass(frozen=True)
class Asked:
    """The words of one `clew certify`."""

    target: str
    prompt: str | None = None
    session: str | None = None
    points: int | None = None
    point: str = ""
    budget_s: float = BUDGET_S
    seed: str = "1"
    answers: str = ""
    recorded: str = ""
    live: bool = False
    yes: bool = False
    keep: str = ""
    workspace: str = ""
    may_write: tuple[str, ...] = ()


def certify(desk: Desk, asked: Asked) -> int:
    """Try an agent; the exit code says whether anything was found, and whether all was tried."""
    trial.require_linux()
    _check(asked)
    if asked.live:
        _confirm(desk, asked)
    found = trial.certify(_wish(desk, asked), desk.screen.tell, lambda lived: _show(desk, lived))
    if desk.options.json:
        desk.screen.answer_json(report.as_json(found))
    else:
        desk.screen.answer_lines(report.lines(found))
    return found.exit_code


def _show(desk: Desk, lived: Lived) -> None:
    """What happened in the life of a single point: its journal, for whoever wants to see (`-v`)."""
    if desk.options.verbose:
        when = desk.when(desk.home())
        desk.screen.tell(f"point {lived.point.name}: {lived.outcome} in {lived.legs} processes")
        for record in lived.records:
            desk.screen.tell(*log_lines(line_of(record), when))


def _check(asked: Asked) -> None:
    """Refuse what cannot be meant, before anything is started."""
    file, _, name = asked.target.rpartition(":")
    if not file or not name:
        raise UsageError(
            f"{asked.target!r} names no agent",
            code="invalid_agent_path",
            next="Write FILE:AGENT, as in examples/orders/agent.py:settle.",
        )
    if not absolute(file).is_file():
        raise UsageError(
            f"there is no file {str(absolute(file))!r}", code="agent_not_found", next="Name a Python file."
        )
    if (asked.points is not None and asked.points < 1) or asked.budget_s <= 0:
        raise UsageError(
            f"{asked.points} points in {asked.budget_s:g} seconds are no trial",
            code="invalid_trial",
            next="Give at least one point and more than no seconds, or leave them out.",
        )
    if asked.live and (asked.recorded or asked.answers):
        raise UsageError(
            "--live takes the answers from a real run, and others are given as well",
            code="invalid_trial",
            next="Say --live, or --answers FILE, or --from RUN.",
        )
    if asked.keep and (not asked.live or Path(asked.keep).exists()):
        raise UsageError(
            f"--keep {asked.keep!r} has nothing to keep, or names what is there already",
            code="invalid_trial",
            next="Say --live --keep FILE, with a file that is not there yet.",
        )


def _confirm(desk: Desk, asked: Asked) -> None:
    """Say what `--live` will do, and do it only on a typed yes.

    Raises:
        UsageError: `live_not_confirmed`; nothing ran.
    """
    told = f"input {asked.prompt!r}" if asked.prompt is not None else "no input"
    desk.screen.notice(
        f"--live runs {asked.target} once for real, with {told}: its tools do what they do, models are asked and paid, "
        "approvals are given. Only its files go to a scratch folder. All lives after it use what was answered then."
    )
    if asked.yes:
        return
    options = desk.options
    if not (options.no_input or options.json or options.quiet) and sys.stdin is not None and sys.stdin.isatty():
        desk.screen.tell("run it once for real? yes or no")
        if sys.stdin.readline().strip().lower() in YES:
            return
    raise UsageError(
        "--live was not confirmed, so nothing ran",
        code="live_not_confirmed",
        next="Type yes when it is asked at a terminal, or say --live --yes.",
    )


def _wish(desk: Desk, asked: Asked) -> trial.Wish:
    home = desk.home()
    given = Answers()
    if asked.answers:
        given = answers.read_file(Path(asked.answers))
    if asked.recorded:
        recorded = answers.of_run(home.require(), home.find(asked.recorded))
        given = Answers((*given.told, *recorded.told))
    return trial.Wish(
        target=asked.target,
        server=SERVER,
        workspace=absolute(asked.workspace) if asked.workspace else home.path.parent,
        prompt=asked.prompt,
        answers=given,
        live=asked.live,
        keep=str(absolute(asked.keep)) if asked.keep else "",
        points=asked.points,
        point=asked.point,
        budget_s=asked.budget_s,
        seed=asked.seed,
        session=asked.session or "",
        may_write=tuple(str(absolute(each)) for each in asked.may_write),
        again=trial.command_line([*_words(asked), *(["--home", desk.options.home] if desk.options.home else [])]),
    )


def _words(asked: Asked) -> list[str]:
    """The command again, for one point; of a live run its own answers are not there any more."""
    words = ["clew", "certify", asked.target, *([] if asked.prompt is None else [asked.prompt])]
    for option, value in (
        ("--session", asked.session), ("--answers", asked.answers or asked.keep), ("--from", asked.recorded),
        ("--workspace", asked.workspace),
        *(("--may-write", each) for each in asked.may_write),
    ):  # fmt: skip
        words += [option, value] if value else []
    return [*words, *(["--live"] if asked.live and not asked.keep else []), "--seed", asked.seed]
