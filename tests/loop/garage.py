"""A loop in a scene: functions that count, and look into the journal while they run."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import clew
from clew.loop import LoopConfig, Round, loop
from tests.runtime.scene import RUN, Scene, agent_of

FACES = ("async", "plain")


class Garage:
    """One loop's functions. `good` is the deed that passes; `before`, called first, may raise or die.

    Attributes:
        rounds: What each call of a function was told, in order.
        ran: So often each was called, by its name and round.
        early: Functions that ran although their phase was not on disk.
    """

    def __init__(self, way: str = "plain", *, good: int = 3, config: LoopConfig | None = None, **given: Any) -> None:
        self.scene = Scene()
        self.good = good
        self.before: Callable[[str, Any, Round], Any] = lambda name, run, round: None
        self.rounds: list[tuple[str, Round]] = []
        self.ran: Counter[tuple[str, int]] = Counter()
        self.early: list[str] = []
        self.results: list[Any] = []
        self.config = config
        self.works: dict[str, Any] = {name: self._work(name, way) for name in ("plan", "execute", "verify", "repair")}
        self.works.update(given)
        self.agent = agent_of(way, self._script)

    def _script(self, run: Any) -> Any:
        works = {name: work for name, work in self.works.items() if work is not None}
        result = yield loop(run, **works, config=self.config)
        self.results.append(result)
        return result.value

    def _work(self, name: str, way: str) -> Any:
        def plain(run: Any, round: Round) -> Any:
            self._enter(name, round)
            self.before(name, run, round)
            return self._say(name, round)

        async def awaited(run: Any, round: Round) -> Any:
            self._enter(name, round)
            met = self.before(name, run, round)
            if met is not None:
                await met
            return self._say(name, round)

        return awaited if way == "async" else plain

    def _enter(self, name: str, round: Round) -> None:
        self.rounds.append((name, round))
        self.ran[name, round.number] += 1
        if self.phase != {"plan": "planning", "execute": "executing", "verify": "verifying"}.get(name, "repairing"):
            self.early.append(f"{name} while the journal says {self.phase}")

    def _say(self, name: str, round: Round) -> Any:
        if name == "verify":
            return round.done == f"deed {self.good}", f"saw {round.done}"
        return "the plan" if name == "plan" else f"deed {round.number}"

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The whole lines of the journal; a death may have left half a one behind them."""
        return [json.loads(line) for line in self.scene.memory.raw(RUN).rpartition(b"\n")[0].splitlines()]

    @property
    def loops(self) -> list[dict[str, Any]]:
        """The loop records."""
        return [line["payload"] for line in self.lines if line["kind"] == "loop"]

    @property
    def phases(self) -> list[str]:
        return [told["phase"] for told in self.loops]

    @property
    def phase(self) -> str:
        return self.phases[-1] if self.loops else "idle"

    @property
    def answered(self) -> list[str]:
        """The steps that have their answer."""
        told = [line["payload"]["event"] for line in self.lines if line["kind"] == "event"]
        return [event["stepId"] for event in told if event["type"] == "step_output"]

    def run(self, **how: Any) -> clew.RunResult:
        return self.scene.run(self.agent, **how)

    def resume(self, **how: Any) -> clew.RunResult:
        return self.scene.resume(self.agent, **how)
