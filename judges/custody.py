"""clew as `conformance` sees a runtime: orders are delivered, perhaps again, and the process dies where the suite says.

    cd judges; conformance record --scenario orders --seed 1; conformance verify --scenario orders --seed 1

Each order is a run. A payment is first in the world (a file beside the home), then told to the suite, which ends the
process there: so the home never learns of it, and only the probe can. Each payment needs the yes of a person, which the
suite may withhold.
"""

import fnmatch
import hashlib
import json
import os
from pathlib import Path

from conformance_sdk.adapters.manual import redeliveries
from conformance_sdk.contracts import Disposition, EffectClass
from conformance_sdk.episode import EpisodeContext
from conformance_sdk.fault_log import mark_fault_applied
from conformance_sdk.recorder import activity_scope
from conformance_sdk.schedule import WithholdApprovals

import clew

ORDERS = {"1001": 4200, "1002": 129900, "1003": 7550, "1004": 1895}


class World:
    """What has been paid; survives every death of the process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def paid(self) -> list[str]:
        """The keys that were paid, as often as they were."""
        return self.path.read_text().split() if self.path.exists() else []

    def pay(self, key: str) -> None:
        """Move the money, for good."""
        with self.path.open("a") as world:
            world.write(f"{key}\n")
            world.flush()
            os.fsync(world.fileno())


def episode(ctx: EpisodeContext) -> None:
    """Deliver every order, and see each run to its end or to a person."""
    world = World(ctx.data_dir / "world")
    home = clew.Home(ctx.data_dir / "home", takeover="proven")
    for _, order in redeliveries(ctx.schedule, [(f"execute:{order}", order) for order in ORDERS]):
        settle_order(ctx, home, world, order)


def settle_order(ctx: EpisodeContext, home: clew.Home, world: World, order: str) -> None:
    """One order: begun, gone on with, or found done."""
    agent = agent_of(ctx, world)
    run_id, step = f"order-{order}", f"step_refund_{order}"
    result = home.ensure_sync(agent, order, run_id=run_id)
    if result.operation.state == "paused" and result.operation.reason == "approval_required":
        if withheld(ctx, step):
            record(ctx, step, f"{run_id}:refused", disposition=Disposition.REFUSED)
            return
        home.approve(run_id, by="the suite's operator", reason="the order is known")
        result = home.resume_sync(run_id, agent)
    result.raise_for_state()


def withheld(ctx: EpisodeContext, step: str) -> bool:
    """Does the suite withhold the approval of this step?"""
    faults = () if ctx.schedule is None else ctx.schedule.faults
    found = [fault for fault in faults if isinstance(fault, WithholdApprovals)]
    if any(fnmatch.fnmatch(step, fault.step_pattern) for fault in found):
        mark_fault_applied("withhold_approvals")
        return True
    return False


def agent_of(ctx: EpisodeContext, world: World) -> clew.Agent:
    """An agent that looks an order up and pays it, if a person says yes."""

    @clew.tool(effect="none")
    def look_up(call: clew.Call, order: str) -> int:
        record(ctx, f"step_lookup_{order}", call.uuid, EffectClass.READ)
        return ORDERS[order]

    def find(call: clew.Call) -> clew.Verdict:
        return clew.Happened("paid") if call.uuid in world.paid() else clew.DidNotHappen("it is not in the world")

    @clew.tool(effect="external", probe=find, in_doubt_s=0)
    def pay(call: clew.Call, order: str, cents: int) -> str:
        world.pay(call.uuid)
        record(ctx, f"step_refund_{order}", call.uuid, approval=f"{call.run_id}:a1")
        return "paid"

    def settle(run: clew.SyncRun, order: str) -> str:
        return str(run.call(pay, order=order, cents=run.call(look_up, order=order)))

    policy = clew.Policy("assisted")
    return clew.agent(settle, tools=[look_up, pay], policy=policy)


def record(
    ctx: EpisodeContext, step: str, key: str, effect: EffectClass = EffectClass.PAY, *,
    disposition: Disposition = Disposition.PERFORMED, approval: str | None = None,
) -> None:  # fmt: skip
    """Tell the suite of an effect; it may end this process here."""
    with activity_scope("settling", step, activity_input=step, approval_ref=approval):
        ctx.recorder.record(
            target=f"bank.{effect.value}",
            effect_class=effect,
            identity=key,
            payload_digest="sha256:" + hashlib.sha256(json.dumps([step]).encode()).hexdigest(),
            idempotency_key=key,
            disposition=disposition,
        )
