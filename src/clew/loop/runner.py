"""Plan, execute, verify and repair inside a run: each phase a record before its step begins. No rule of the machine."""

import inspect
from collections.abc import Callable, Coroutine, Generator
from typing import Any, NoReturn, overload
from weakref import WeakSet

import msgspec

from clew.core import evaluation
from clew.core.canon import fingerprint
from clew.core.jsonable import record_result
from clew.core.loops import EXHAUSTED, STOPPED, WORKING, LoopSnapshot
from clew.errors import NotVerified, Refused, Storage, UsageError
from clew.loop.machine import EventKind, LoopConfig, LoopEvent, begin, invalid_config, restore, step
from clew.loop.signals import UNCLASSIFIED, signal
from clew.runtime.bodies import blocking
from clew.runtime.run import Run, SyncRun


class Check(msgspec.Struct, frozen=True):
    """What a verification found: whether it passed, and by what this can be seen. Both are recorded."""

    passed: bool
    evidence: Any = None


class Round(msgspec.Struct, frozen=True):
    """What a function of a loop is told: what was planned, done and found so far, as recorded.

    Attributes:
        number: The round, from 1: each is a deed and its check; 0 while planning.
        plan: What `plan` returned.
        done: What the last `execute` or `repair` returned.
        check: What the last check found; None before the first.
    """

    number: int = 0
    plan: Any = None
    done: Any = None
    check: Check | None = None


class LoopResult(msgspec.Struct, frozen=True):
    """A loop that succeeded: its check passed. `value` is what the last deed returned."""

    snapshot: LoopSnapshot
    plan: Any
    value: Any
    check: Check


Work = Callable[[Any, Round], Any]
_begun: "WeakSet[Run | SyncRun]" = WeakSet()
"""Runs, a new one each leg, that have had their loop: a second one would take the first one's records for its own."""


@overload
def loop(
    run: Run, *, execute: Work, verify: Work, plan: Work | None = ..., repair: Work | None = ...,
    config: LoopConfig | None = ...,
) -> Coroutine[Any, Any, LoopResult]: ...  # fmt: skip
@overload
def loop(
    run: SyncRun, *, execute: Work, verify: Work, plan: Work | None = ..., repair: Work | None = ...,
    config: LoopConfig | None = ...,
) -> LoopResult: ...  # fmt: skip
def loop(
    run: Run | SyncRun, *, execute: Work, verify: Work, plan: Work | None = None, repair: Work | None = None,
    config: LoopConfig | None = None,
) -> Any:  # fmt: skip
    """Do something until a check of it passes: plan, execute, verify, and repair while it does not.

    Each function is called as `work(run, round)`, async or plain, in a step of its own (`loop-plan-1`,
    `loop-execute-1`, `loop-verify-<n>`, `loop-repair-<n>`): once answered, it is not called again on a resume. Each
    change of phase is a `loop` record before the next step begins, so a run that was killed goes on in the phase in
    which it died. One loop a run.

    Args:
        run: As the agent got it; with a `Run` the result is awaited, with a `SyncRun` it is returned.
        execute: Does it. What it returns is the action: the same again and again is no progress; None is not compared.
        verify: Looks: a bool, `(passed, evidence)` or a `Check`. Nothing else is a verdict.
        plan: Comes first, if given.
        repair: Does it better, knowing `round.check`. As `execute` otherwise.
        config: The limits.

    Returns:
        How it came out, when a check has passed. There is no other success.

    Raises:
        NotVerified: `loop_failed` when the loop failed; `facts["reason"]` says why. It does on every resume.
        Stop: the run pauses: `loop_exhausted`, `loop_no_progress`, or a reason of its own; let it pass.
        UsageError: `loop_config_invalid`; nothing was done.
        Refused: `loop_state_invalid` for a second loop; `loop_snapshot_mismatch`.

    What a function raises passes through. Before it does, the loop pauses in its phase and a resume begins this
    phase anew; unless the error's code says that the loop is over (contract §4).

    Source:
        Contract §3.S; DESIGN §3 "loop".
    """
    works = {"plan": plan, "execute": execute, "verify": verify, "repair": repair}
    walk = _Walk(run, {name: work for name, work in works.items() if work is not None}, config or LoopConfig())
    return _drive_async(run, walk.go()) if isinstance(run, Run) else _drive_sync(run, walk.go())


class _Do(msgspec.Struct, frozen=True):
    """A step is to be done: `work(run, round)` under this name."""

    name: str
    work: Work
    round: Round


class _Keep(msgspec.Struct, frozen=True):
    """A snapshot is to be durable."""

    snapshot: LoopSnapshot


class _Halt(msgspec.Struct, frozen=True):
    """The run is to pause."""

    reason: str
    message: str


_Need = _Do | _Keep | _Halt
_Going = Generator[_Need, Any, LoopResult]


async def _drive_async(run: Run, walk: _Going) -> LoopResult:
    answer: Any = None
    fault: BaseException | None = None
    while True:
        try:
            need = walk.send(answer) if fault is None else walk.throw(fault)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # what the generator returns
        answer, fault = None, None
        try:
            made = _meet(run, need)
            answer = await made if inspect.isawaitable(made) else made
        except BaseException as raised:  # noqa: BLE001  # the walk decides what it means, and lets it pass
            fault = raised


def _drive_sync(run: SyncRun, walk: _Going) -> LoopResult:
    answer: Any = None
    fault: BaseException | None = None
    while True:
        try:
            need = walk.send(answer) if fault is None else walk.throw(fault)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # what the generator returns
        answer, fault = None, None
        try:
            answer = _meet(run, need)
        except BaseException as raised:  # noqa: BLE001  # the walk decides what it means, and lets it pass
            fault = raised


def _meet(run: Run | SyncRun, need: _Need) -> Any:
    """Do what the walk needs, in the words that both faces share."""
    if isinstance(need, _Do):
        return run.step(need.name, need.work, run, need.round)
    if isinstance(need, _Keep):
        return run.record("loop", need.snapshot.as_json())
    return run.pause(need.reason, need.message)


class _Walk:
    """One loop on its way through one leg. The snapshot is what is durable, never more."""

    def __init__(self, run: Run | SyncRun, works: dict[str, Work], config: LoopConfig) -> None:
        self.run = run
        self.works = works
        self.config = _with_plan(config, works)
        self.at = begin(run.run_id, run.config_fingerprint)
        self.round = Round()

    def go(self) -> _Going:
        self._restore()
        yield from self._retrace()
        if self.at.phase == "paused":
            yield from self._leave_pause()
        if self.at.phase == "idle":
            yield from self._move(LoopEvent("START"))
        while self.at.phase in WORKING:
            yield from self._work()
        return (yield from self._end())

    def _restore(self) -> None:
        if self.run in _begun:
            raise Refused(
                f"run {self.run.run_id!r} has had its loop",
                code="loop_state_invalid",
                next="Use one loop a run; what else is to be verified belongs into its check.",
                run=self.run.run_id,
            )
        _begun.add(self.run)
        recorded = self.run.recorded("loop")
        if recorded is not None:
            self.at = restore(recorded, run_id=self.run.run_id, config_fingerprint=self.run.config_fingerprint)

    def _retrace(self) -> Generator[_Need, Any, None]:
        """Hear again what the finished steps said. None of them is done again."""
        for name in _behind(self.at, planning=self.config.planning):
            work = _only_told(self.works[name] if name != "verify" else self._judge(), name, self.at)
            self._heard(name, (yield _Do(f"loop-{name}", work, self.round)))

    def _leave_pause(self) -> Generator[_Need, Any, None]:
        if self.at.pause_reason == EXHAUSTED:
            yield _Halt(EXHAUSTED, str(self.at.failure_message))
        yield from self._move(LoopEvent("RESUME"))

    def _work(self) -> Generator[_Need, Any, None]:
        """The step of this phase, then the next phase."""
        name = _VERB[self.at.phase]
        self.round = msgspec.structs.replace(self.round, number=self.at.iteration)
        try:
            value = yield _Do(f"loop-{name}", self._judge() if name == "verify" else self.works[name], self.round)
        except BaseException as fault:
            yield from self._struck(fault)
            raise
        self._heard(name, value)
        yield from self._move(self._said(name, value))
        if self.at.phase == "paused":
            yield _Halt(str(self.at.pause_reason), str(self.at.failure_message))

    def _struck(self, fault: BaseException) -> Generator[_Need, Any, None]:
        """A step raised: keep what that means for the loop. What only concerns the run leaves the loop as it is.

        Raises:
            NotVerified: the loop is over.
        """
        event = _meaning(fault, self.run.stopping)
        if event is None:
            return
        yield from self._move(event)
        if self.at.phase in STOPPED and isinstance(fault, Exception):
            raise _not_verified(self.at) from fault

    def _said(self, name: str, value: Any) -> LoopEvent:
        if name == "verify":
            check = self.round.check
            assert check is not None, "it was heard"
            return LoopEvent("PASSED") if check.passed else LoopEvent("REJECTED", message=_words(check.evidence))
        if name == "plan":
            return LoopEvent("PLANNED")
        kind: EventKind = "EXECUTED" if name == "execute" else "REPAIRED"
        return LoopEvent(kind, action="" if value is None else fingerprint(record_result(value)))

    def _heard(self, name: str, value: Any) -> None:
        """Take in what a step said, live or replayed."""
        member = {"plan": "plan", "verify": "check"}.get(name, "done")
        told = Check(value["passed"], value["evidence"]) if name == "verify" else value
        self.round = msgspec.structs.replace(self.round, **{member: told})

    def _move(self, event: LoopEvent) -> Generator[_Need, Any, None]:
        """One transition: judged, then durable, then true."""
        after = step(self.at, event, self.config)
        yield _Keep(after)
        self.at = after

    def _judge(self) -> Work:
        verify = self.works["verify"]
        return _judged_async(verify) if isinstance(self.run, Run) else _judged_sync(verify)

    def _end(self) -> Generator[_Need, Any, LoopResult]:
        yield from ()
        if self.at.phase != "succeeded":
            raise _not_verified(self.at)
        assert self.round.check is not None, "only a check that passed leads here"
        return LoopResult(self.at, self.round.plan, self.round.done, self.round.check)


_VERB = {"planning": "plan", "executing": "execute", "verifying": "verify", "repairing": "repair"}


def _with_plan(config: LoopConfig, works: dict[str, Work]) -> LoopConfig:
    if config.planning and "plan" not in works:
        raise invalid_config("it wants a plan, and no function plans")
    if config.on_failure == "repair" and config.max_repairs and "repair" not in works:
        raise invalid_config("a failed check is to be repaired, and no function repairs; say on_failure='fail'")
    return msgspec.structs.replace(config, planning="plan" in works)


def _behind(at: LoopSnapshot, *, planning: bool) -> list[str]:
    """The steps that have been done when a loop stands here, in their order; of one that failed nobody asks."""
    phase = at.phase if at.resume_phase is msgspec.UNSET else at.resume_phase
    done = {"executing": 0, "verifying": 2 * at.iteration - 1, "repairing": 2 * at.iteration - 2}
    deeds = [name for number in range(at.iteration) for name in ("repair" if number else "execute", "verify")]
    if phase in ("idle", "planning") or phase in STOPPED:
        return []
    return [*(["plan"] if planning else []), *deeds[: done.get(phase, 2 * at.iteration)]]


def _only_told(work: Work, name: str, at: LoopSnapshot) -> Work:
    """A step that must be recorded: its answer is told, and it is never done."""

    def refuse(run: Any, round: Round) -> NoReturn:
        raise Refused(
            f"the loop of run {at.run_id!r} is {at.phase}, and its step {name!r} before that is not recorded",
            code="loop_snapshot_mismatch",
            next="Give the loop the functions that it began with, in the same place of the agent.",
            run=at.run_id,
            step=name,
        )

    refuse.__annotations__ = getattr(work, "__annotations__", {}) if inspect.isroutine(work) else {}
    return refuse


def _judged_async(verify: Work) -> Work:
    async def judged(run: Any, round: Round) -> Any:
        made = verify(run, round)
        return _verdict(await made if inspect.isawaitable(made) else made)

    return judged


def _judged_sync(verify: Work) -> Work:
    return lambda run, round: _verdict(blocking(verify(run, round)))


def _verdict(said: Any) -> dict[str, Any]:
    """What a check said, as it is recorded.

    Raises:
        UsageError: `loop_check_invalid` when it is no verdict: what merely looks true proves nothing.
    """
    if type(said) is tuple and len(said) == 2:
        said = Check(*said)
    if isinstance(said, evaluation.Check):
        # What `run.check` takes is a verdict here as well; whatever it says beside is its evidence.
        told = {name: value for name, value in msgspec.structs.asdict(said).items() if value not in (None, "", (), [])}
        said = Check(said.passed, {name: value for name, value in told.items() if name != "passed"} or None)
    check = said if isinstance(said, Check) else Check(said)
    if type(check.passed) is not bool:
        raise UsageError(
            f"verify returned {said!r:.200}, which is no verdict",
            code="loop_check_invalid",
            next="Return True or False, (passed, evidence), a clew.Check or a clew.loop.Check.",
        )
    return {"passed": check.passed, "evidence": record_result(check.evidence)}


def _meaning(fault: BaseException, stopping: str) -> LoopEvent | None:
    """What a fault means for the loop; None when it is the run's alone: it pauses, or its journal failed."""
    if stopping == "aborted":
        return LoopEvent("ABORT")
    if stopping or not isinstance(fault, Exception) or isinstance(fault, Storage):
        return None
    code = getattr(fault, "code", UNCLASSIFIED)
    return signal(code if isinstance(code, str) else UNCLASSIFIED, f"{type(fault).__name__}: {fault}")


def _words(evidence: Any) -> str:
    return "" if evidence is None else str(evidence)


def _not_verified(at: LoopSnapshot) -> NotVerified:
    message = "" if at.failure_message is msgspec.UNSET else f": {at.failure_message}"
    return NotVerified(
        f"the loop of run {at.run_id!r} {at.phase} after {at.iteration} of its rounds ({at.failure_code}){message}",
        code="loop_failed",
        next=f"See its checks with `clew show {at.run_id} --log`; catch this in the agent, or start a new run.",
        run=at.run_id,
        phase=at.phase,
        reason=at.failure_code,
    )
