"""A leg on an event loop: cancellations, agents that are left behind, an abort amid it. Plain code is in test_live."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import clew
from clew.stores.base import Command
from clew.stores.jsonl import FileRunStore
from tests.runtime.stage import (
    RUN,
    Bank,
    async_payer,
    died_in_the_payment,
    mortal_home,
    state_of,
)

# The agent raises; a limit is reached.


async def cancelled_at(when: asyncio.Event, work: Any) -> bool:
    """Start it, cancel it when it says so; True when the cancellation was delivered."""
    task = asyncio.ensure_future(work)
    await when.wait()
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False


def test_a_cancelled_caller_leaves_a_paused_run_behind() -> None:
    """The cancellation is delivered, when the pause is durable: the next process may go on at once."""
    home, _ = mortal_home()

    async def main() -> bool:
        begun = asyncio.Event()

        async def agent(run: clew.Run, prompt: Any) -> None:
            begun.set()
            await asyncio.Event().wait()

        return await cancelled_at(begun, home.run(clew.agent(name="orders")(agent), run_id=RUN))

    assert asyncio.run(main())
    assert ("paused", "interrupted") == (state_of(home).state, home.result(RUN).reason)


def test_a_cancelled_payment_is_open_and_the_cancellation_still_delivered() -> None:
    """Cancelled is not "did not happen": a person has to say, and the caller has to hear."""
    home, _ = mortal_home()

    async def main() -> bool:
        begun = asyncio.Event()

        @clew.tool(name="pay", effect="external")
        async def pay() -> None:
            begun.set()
            await asyncio.Event().wait()

        async def agent(run: clew.Run, prompt: Any) -> None:
            await run.call(pay)

        return await cancelled_at(begun, home.run(clew.agent(name="orders", tools=[pay])(agent), run_id=RUN))

    assert asyncio.run(main())
    assert ("unknown_effect", ["unknown"]) == (
        home.result(RUN).reason,
        [row["status"] for row in home.result(RUN).waiting],
    )


def test_a_caller_cancelled_while_a_probe_is_asked_does_not_start_the_agent() -> None:
    """It wants no more: the probe's answer is kept, and nothing is called behind its back."""
    bank = Bank()
    home, _ = died_in_the_payment(bank, happened=True)

    async def main() -> bool:
        asked = asyncio.Event()

        async def find(call: clew.Call) -> clew.Verdict:
            asked.set()
            await asyncio.sleep(0)
            return clew.Happened(1)

        pay = clew.tool(name="pay", effect="external", probe=find, in_doubt_s=0)(lambda order: 1)
        called.clear()

        async def agent(run: clew.Run, prompt: Any) -> None:
            called.append(1)

        return await cancelled_at(asked, home.resume(RUN, clew.agent(name="orders", tools=[pay])(agent)))

    called: list[int] = []

    assert asyncio.run(main())
    assert ([], "paused", "interrupted") == (called, state_of(home).state, home.result(RUN).reason)


def test_a_plain_agent_under_a_cancelled_caller_pauses_at_its_next_call() -> None:
    """Its thread cannot be stopped from outside; the gate can be closed."""
    home, _ = mortal_home()

    async def main() -> bool:
        loop, begun = asyncio.get_running_loop(), asyncio.Event()

        def agent(run: clew.SyncRun, prompt: Any) -> None:
            loop.call_soon_threadsafe(begun.set)
            while True:
                run.step("again", lambda: 1)

        return await cancelled_at(begun, home.run(clew.agent(name="orders")(agent), run_id=RUN))

    assert asyncio.run(main())
    assert ("paused", "interrupted") == (state_of(home).state, home.result(RUN).reason)


def test_a_caller_cancelled_while_the_run_is_born_leaves_it_paused() -> None:
    """Between the birth and the agent there is a moment too; the run exists, so it must say how it stands."""
    home, _ = mortal_home()

    async def main() -> bool:
        task = asyncio.ensure_future(home.run(async_payer(Bank().tool(), "1"), run_id=RUN))
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return True
        return False

    assert asyncio.run(main())
    assert ("paused", "interrupted", 0) == (state_of(home).state, home.result(RUN).reason, len(state_of(home).calls))


def test_an_agent_that_does_not_take_its_leave_is_left_behind() -> None:
    """It swallows its cancellation for ever; the run pauses all the same."""
    home, _ = mortal_home()

    async def main() -> clew.RunResult:
        async def agent(run: clew.Run, prompt: Any) -> None:
            home.reader.store.post(Command(1, "c-1", RUN, "pause", "bob", "lunch"))
            while not over.is_set():
                try:
                    await over.wait()
                except asyncio.CancelledError:
                    continue

        over = asyncio.Event()
        task = asyncio.ensure_future(home.run(clew.agent(name="orders")(agent), run_id=RUN))
        result = await task
        over.set()
        await asyncio.sleep(0)
        return result

    assert "pause_requested" == asyncio.run(main()).reason


def aborting(home: clew.Home) -> Callable[..., None]:
    def abort() -> None:
        clock: Any = home._parts.clock
        clock.advance(1)
        home.reader.store.post(Command(1, "c-1", RUN, "abort", "bob", "enough"))

    return abort


def test_an_abort_keeps_what_was_started_and_starts_nothing_more() -> None:
    """Twenty calls side by side: the ones under way are cancelled and listed, the rest never began."""
    home, _ = mortal_home()
    begun: list[int] = []

    @clew.tool(name="pay", effect="external")
    async def pay(number: int) -> int:
        begun.append(number)
        if number == 5:
            aborting(home)()
        await asyncio.Event().wait()
        return number

    async def agent(run: clew.Run, prompt: Any) -> None:
        async with run.group() as group:
            for number in range(20):
                group.call(pay, number)

    result = home.run_sync(clew.agent(name="orders", tools=[pay])(agent), run_id=RUN)

    assert ("failed", "aborted") == (result.operation.state, result.reason)
    assert sorted(begun) == sorted(int(row["stepId"].rpartition("-")[2]) - 1 for row in result.snapshot["effects"])


# Commands for a leg that waits.


class Watched(FileRunStore):
    """Says who looks into its inboxes; `looked` is set when the lookout has done so three times."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.lookers: list[str] = []
        self.looked = threading.Event()

    def pending(self, run_id: str) -> Sequence[Command]:
        self.lookers.append(threading.current_thread().name)
        if self.lookers.count("clew-lookout") > 2:
            self.looked.set()
        return super().pending(run_id)


def test_a_leg_that_waits_is_not_woken_while_nobody_knocks(tmp_path: Path) -> None:
    """A process has a thousand of them: each that looked for itself took a third of a core from those that work."""
    store, before = Watched(tmp_path / ".clew"), list[str]()

    @clew.agent(tools=[])
    async def waits(run: clew.Run, prompt: Any) -> None:
        await asyncio.to_thread(store.looked.wait, 30)
        before.extend(store.lookers)

    asyncio.run(clew.Home(tmp_path / ".clew", store=store).run(waits, run_id=RUN))

    assert {"clew-lookout"} == set(before)


def test_a_leg_that_waits_hears_of_a_command(tmp_path: Path) -> None:
    """It would be aborted when its model answers, which may be never."""
    home, begun = clew.Home(tmp_path / ".clew"), threading.Event()

    @clew.agent(tools=[])
    async def waits(run: clew.Run, prompt: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def main() -> Any:
        running = asyncio.ensure_future(home.run(waits, run_id=RUN))
        await asyncio.to_thread(begun.wait, 30)
        told = await asyncio.to_thread(home.abort, RUN, by="ann", reason="enough")
        return told["status"], (await asyncio.wait_for(running, 30)).reason

    assert ("applied", "aborted") == asyncio.run(main())
