"""A whole trial: the scratch folders, the servers, the points, the seconds it may take. Judges no life."""

import hashlib
import os
import shlex
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from clew.certify import answers as answered
from clew.certify.answers import Answers
from clew.certify.judging import Finding, Usual, first_look, judge, usual
from clew.certify.lives import COMPLETED, Lived, Server, Stage, Terms, since_death
from clew.certify.points import Point, Shape, parse_point, planned, singles
from clew.certify.report import Report, gathered
from clew.certify.server import Facts
from clew.certify.surroundings import SCRATCH, copy, measured
from clew.core.answers import json_text
from clew.errors import Refused
from clew.runtime.clock import SystemClock
from clew.runtime.home import Home
from clew.views.plain import count_text

STAGES: Final = 2
FIRST_S: Final = 120.0
PATIENCE_S: Final = 10.0
"""Beside five times what the life without a death took: so long may one leg take."""
STOPPING_S: Final = 10.0
FEW: Final = 8
"""Fewer points than these are not worth the imports of a second stage."""


class Wish(msgspec.Struct, frozen=True):
    """What is to be tried.

    Attributes:
        target: `FILE:AGENT`, the file absolute or below the workspace.
        server: The command of a server, behind the interpreter; it is given the target and a descriptor.
        workspace: What is copied for each life.
        answers: What external tools and models answer.
        live: Run them once for real, and take what they answer.
        points: How many; None for every point with one death.
        keep: Where what was answered live is written to; nowhere if empty.
        point: Only this one.
        budget_s: Begin no more lives after so many seconds.
        session: The conversation that the agent goes on with, begun anew in each life; none if empty.
        again: The command that was typed, without points.
    """

    target: str
    server: tuple[str, ...]
    workspace: Path
    prompt: Any = None
    answers: Answers = Answers()
    live: bool = False
    keep: str = ""
    points: int | None = None
    point: str = ""
    budget_s: float = 300.0
    seed: str = "1"
    may_write: tuple[str, ...] = ()
    session: str = ""
    again: str = ""


class Trial:
    """One trial. Lives as long as `certify`."""

    def __init__(self, wish: Wish, folder: Path, tell: Callable[[str], None], witness: Callable[[Lived], None]) -> None:
        self._wish = wish
        self._witness = witness
        self._folder = folder
        self._tell = tell
        self._clock = SystemClock()
        self._since_s = self._clock.monotonic_s()
        self._turn = threading.Lock()
        self._found: dict[Finding, list[str]] = {}
        self._notes: dict[str, None] = {}
        self._outcomes: Counter[str] = Counter()
        self._counted: Counter[str] = Counter()
        self._names = 0
        self._fault: BaseException | None = None
        self._patience_s = FIRST_S

    def hold(self) -> Report:
        """Try every point that is wanted and that the seconds allow."""
        wish = self._wish
        template = self._folder / "template"
        count, size = measured(wish.workspace)
        self._tell(f"each life has a copy of {str(wish.workspace)!r}: {count} files, {size} bytes")
        copy(wish.workspace, template)
        with ExitStack() as closing:
            stages, facts = self._opened(closing, template)
            told = self._answers(stages[0], template)
            terms = Terms(template, wish.seed, wish.prompt, told, wish.may_write, wish.session)
            whole, again = self._whole(stages[0], terms)
            known = usual(whole, again)
            shape = Shape(**since_death(whole.entries))
            self._note(whole, Point(), [*first_look(whole, facts.tools), *judge(whole, known)])
            points = [parse_point(wish.point)] if wish.point else planned(shape, wish.points, wish.seed)
            if not wish.point and len(points) < (wish.points or 0):
                self._notes[f"there are no more than {len(points)} points"] = None
            if not known.steady:
                self._notes["two lives without a death differ: what happened is compared by key alone"] = None
            self._tell(f"{count_text(len(points), 'point')} to try, for up to {wish.budget_s:g} s")
            self._try(stages, terms, points, known)
        return self._report(facts, shape, len(points))

    def _opened(self, closing: ExitStack, template: Path) -> tuple[list[Stage], Facts]:
        """The stages, each with two servers; all import at the same time."""
        stages, servers = [], []
        few = self._wish.point != "" or (self._wish.points or FEW) < FEW
        for number in range(1 if few else min(STAGES, os.cpu_count() or 1)):
            folder = self._folder / f"stage{number}"
            copy(template, folder / "work")
            pair = [self._server(folder / "work", order) for order in (0, 1)]
            for server in pair:
                closing.callback(server.close)
            servers += pair
            stages.append(Stage(folder, folder / "work", pair))
        facts = [server.facts() for server in servers]
        return stages, facts[0]

    def _server(self, work: Path, order: int) -> Server:
        """Two of a stage order sets of texts differently, as two processes do in life."""
        drawn = hashlib.sha256(f"{self._wish.seed}:{order}".encode()).digest()
        command = (*self._wish.server, _seen_from(work, self._wish))
        return Server(command, work, int.from_bytes(drawn[:3]) or 1)

    def _answers(self, stage: Stage, template: Path) -> str:
        wish, path = self._wish, self._folder / "answers"
        found = wish.answers
        if wish.live:
            self._tell("the agent runs once for real")
            terms = Terms(template, wish.seed, wish.prompt, session=wish.session)
            lived = stage.live(terms, Point(), self._name(), live=True, patience_s=wish.budget_s)
            if lived.outcome != COMPLETED:
                raise Refused(
                    f"the one real run ended as {lived.outcome}: {lived.detail}",
                    code="live_not_completed",
                    next="What it did is done; look at what it was told, mend the agent, or give --answers FILE.",
                    outcome=lived.outcome,
                )
            found = Answers((*found.told, *answered.of_run(Home(stage.work / ".clew"), lived.run_id).told))
            if wish.keep:
                Path(wish.keep).write_bytes(answered.document(found))
        answered.save(found, path)
        return str(path)

    def _whole(self, stage: Stage, terms: Terms) -> tuple[Lived, Lived]:
        """Two lives without a death, and how long one leg may take."""
        began_s = self._clock.monotonic_s()
        whole = stage.live(terms, Point(), self._name(), patience_s=FIRST_S)
        took_s = self._clock.monotonic_s() - began_s
        self._patience_s = min(FIRST_S, PATIENCE_S + 5 * took_s)
        if whole.unanswered is not None:
            tool = whole.unanswered.tool
            raise Refused(
                f"nobody says what {tool} answers to {json_text(whole.unanswered.arguments)[:300]}; it is not run here",
                code="answer_missing",
                next='Give --answers FILE with {"TOOL": [{"answer": …}]} (of models: "turns"), --from RUN, or --live.',
                tool=tool,
            )
        other = replace(terms, seed=f"{terms.seed}:again")
        return whole, stage.live(other, Point(), self._name(), patience_s=FIRST_S)

    def _name(self) -> str:
        """A run id that no other life has."""
        with self._turn:
            self._names += 1
            return f"trial{self._names:05d}"

    # Points.

    def _try(self, stages: Sequence[Stage], terms: Terms, points: Sequence[Point], known: Usual) -> None:
        ahead = iter(points)
        threads = [
            threading.Thread(target=self._work, args=(stage, terms, ahead, known), daemon=True) for stage in stages
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException as struck:
            # Ctrl-C: the lives under way end before their folders are taken away.
            self._fault = struck
            for stage in stages:
                stage.close()
            for thread in threads:
                thread.join(STOPPING_S)
            raise
        if self._fault is not None:
            raise self._fault

    def _work(self, stage: Stage, terms: Terms, ahead: Iterator[Point], known: Usual) -> None:
        """One point after the other, while there are seconds left."""
        try:
            while self._fault is None and self._spent_s() < self._wish.budget_s:
                with self._turn:
                    point = next(ahead, None)
                if point is None:
                    return
                lived = stage.live(terms, point, self._name(), patience_s=self._patience_s)
                self._took(lived, judge(lived, known))
        except BaseException as fault:  # noqa: BLE001  # whatever it is, the trial ends with it
            self._fault = fault

    def _took(self, lived: Lived, found: list[Finding]) -> None:
        with self._turn:
            if self._wish.point:
                self._witness(lived)
            self._note(lived, lived.point, found)
            self._outcomes[lived.outcome] += 1
            self._counted["ran"] += 1
            self._counted["deaths"] += lived.struck
            wanted = len(lived.point.kills) + bool(lived.point.fails)
            refused = any(entry.did == "refused" for entry in lived.entries)
            self._counted["not_reached"] += lived.struck + refused < wanted
            reviews = [] if lived.state is None else [call.settled_by for call in lived.state.calls.values()]
            self._counted["settled"] += any(each is not None and each.source == "operator" for each in reviews)
            if self._counted["ran"] % 50 == 0:
                self._tell(f"{self._counted['ran']} points after {self._spent_s():.0f} s, {len(self._found)} findings")

    def _note(self, lived: Lived, point: Point, found: list[Finding]) -> None:
        for one in found:
            self._found.setdefault(one, []).append(point.name)
        for entry in lived.entries:
            if entry.did == "noted":
                self._notes[entry.what] = None

    def _spent_s(self) -> float:
        return self._clock.monotonic_s() - self._since_s

    def _report(self, facts: Facts, shape: Shape, points: int) -> Report:
        counted = self._counted
        return Report(
            agent=facts.agent, seed=self._wish.seed, appends=shape.appends, bodies=shape.bodies,
            single=len(singles(shape)), planned=points, ran=counted["ran"], deaths=counted["deaths"],
            not_reached=counted["not_reached"], seconds=round(self._spent_s(), 1), outcomes=dict(self._outcomes),
            settled=counted["settled"], findings=gathered(self._found, self._wish.again), notes=list(self._notes),
        )  # fmt: skip


def _seen_from(work: Path, wish: Wish) -> str:
    """The target as a server loads it: from the copy of the workspace, if the file lies in that."""
    file, _, name = wish.target.rpartition(":")
    path = Path(file).resolve()
    if path.is_relative_to(wish.workspace.resolve()):
        path = work / path.relative_to(wish.workspace.resolve())
    return f"{path}:{name}"


def certify(wish: Wish, tell: Callable[[str], None], witness: Callable[[Lived], None] = lambda lived: None) -> Report:
    """Let an agent die wherever it can, and say what was found. Touches nothing outside of a scratch folder.

    Args:
        wish: What is tried, and how long.
        tell: Told of progress, in words.
        witness: Shown the life of a single point.

    Raises:
        UsageError: `workspace_too_large`, `unknown_point`, what the import of the agent raised.
        Refused: `answer_missing`, `live_not_completed`, `agent_not_forkable`, `certify_not_here`.

    Source:
        Issue 7 of the project, item 5; promises 1 to 8.
    """
    require_linux()
    with _scratch() as folder:
        return Trial(wish, folder, tell, witness).hold()


def require_linux() -> None:
    """A trial forks, adopts and kills: only Linux does all of that.

    Raises:
        Refused: `certify_not_here`.
    """
    if sys.platform != "linux":
        raise Refused(
            f"a trial forks, adopts and kills processes, which is not built for {sys.platform}",
            code="certify_not_here",
            next="Try the agent without processes: clew.testing.crash_points, or certify it on Linux.",
            platform=sys.platform,
        )


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix=SCRATCH, ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()


def command_line(words: Sequence[str]) -> str:
    """A command as it is typed."""
    return shlex.join(words)
