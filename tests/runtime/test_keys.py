"""One execution a business key: who gets it, who is refused and told what, and what a death leaves behind."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import clew
from clew.core.canon import fingerprint_text
from clew.core.keys import Claim, word_of
from clew.errors import Refused, UsageError
from clew.stores.keys import MemoryKeyIndex
from clew.testing.crash import Crash, CrashPoint
from tests.runtime.keyed import Firm, boom, held, pay_in, payer, raising, unfunded
from tests.runtime.scene import WAYS

LONG = "x" * 20_000


@pytest.fixture
def firm() -> Firm:
    return Firm()


@pytest.fixture
def home(tmp_path: Path) -> clew.Home:
    return clew.Home(tmp_path / ".clew", takeover="proven")


# Who gets the key.


@pytest.mark.parametrize("way", WAYS)
def test_of_two_runs_one_pays_and_the_other_is_told_which(firm: Firm, way: str) -> None:
    """The promise: one execution of an effect for each business key of a home."""
    firm.run("r1", firm.tool(way), way=way)
    second = firm.run("r2", firm.tool(way), way=way)

    assert ([held("r1")], [("r1", "1042")]) == (second.output, firm.paid)
    assert ["tool_call", "capability_resolved", "not_started", "step_output", "tool_result"] == firm.words("r2")[:5]


def test_of_two_calls_of_one_run_one_pays(firm: Firm) -> None:
    """An agent that loops does not pay twice either."""
    result = firm.run("r1", firm.tool(), "1042", "7", "1042")

    assert (held("r1"), 2) == (result.output[2], len(firm.paid))


def test_equal_keys_of_two_tools_are_two_effects(firm: Firm) -> None:
    """An order is paid once and shipped once."""
    firm.run("r1", firm.tool())
    second = firm.run("r2", firm.tool(name="refund"))

    assert ("refused" in second.output[0], 2) == (False, len(firm.paid))


def test_a_call_without_a_key_asks_no_index(firm: Firm) -> None:
    """A plain call costs what it cost before."""
    firm.index = object()
    result = firm.run("r1", firm.tool(key=None), "1042", "1042")

    assert ("completed", 2) == (result.operation.state, len(firm.paid))


def test_the_refusal_is_replayed_as_it_was_told(firm: Firm) -> None:
    """Whatever became of the holder meanwhile: the agent goes the same way on a resume."""
    firm.run("r1", firm.tool(then=boom))
    broken = [True]

    def agent(run: Any, prompt: Any) -> Any:
        try:
            run.call(pay, "1042")
        except clew.KeyHeld as fault:
            if broken:
                raise ValueError("a bug") from None
            return [fault.facts["run"], fault.facts["state"], fault.facts["tool"]]

    pay = firm.tool()
    firm.home().run_sync(clew.Agent(agent, tools=[pay]), None, run_id="r2", signals=False)
    firm.home().settle("r1", clew.DidNotHappen(), by="ops", reason="looked")
    broken.clear()
    result = firm.home().resume_sync("r2", clew.Agent(agent, tools=[pay]), signals=False)

    assert (["r1", "open", "pay"], 1) == (result.output, len(firm.paid))


# How long it is held.


def test_an_open_effect_keeps_its_key(firm: Firm) -> None:
    """An unknown outcome is never an answer (promise 2), for another run neither."""
    firm.run("r1", firm.tool(then=boom))
    second = firm.run("r2", firm.tool())

    assert ([held("r1", "open")], 1) == (second.output, len(firm.paid))


@pytest.mark.parametrize(
    ("verdict", "state"),
    [(clew.Happened(), "happened"), (clew.Happened({"transfer": 1}), "happened"), (clew.GiveUp(), "given_up")],
    ids=["happened", "with a result", "given up"],
)
def test_a_settled_effect_keeps_its_key(firm: Firm, verdict: Any, state: str) -> None:
    """It happened, or nobody will ever know."""
    firm.run("r1", firm.tool(then=boom))
    firm.home().settle("r1", verdict, by="ops", reason="looked")
    second = firm.run("r2", firm.tool())

    assert [held("r1", state)] == second.output


def test_what_did_not_happen_frees_the_key_and_who_comes_first_has_it(firm: Firm) -> None:
    """The run that was settled asks anew, as everybody."""
    firm.run("r1", firm.tool(then=boom))
    firm.home().settle("r1", clew.DidNotHappen(), by="ops", reason="looked")
    second = firm.run("r2", firm.tool())
    first = firm.resume("r1", firm.tool())

    assert (["r1", "r2"], [held("r2")]) == ([run for run, _ in firm.paid], first.output)
    assert "transfer" in second.output[0]


def test_a_settled_run_that_comes_first_starts_its_second_attempt(firm: Firm) -> None:
    """Its own earlier claim is no hindrance."""
    firm.run("r1", firm.tool(then=boom))
    firm.home().settle("r1", clew.DidNotHappen(), by="ops", reason="looked")
    first = firm.resume("r1", firm.tool())
    second = firm.run("r2", firm.tool())

    assert ("transfer" in first.output[0], [held("r1")]) == (True, second.output)


def test_a_tool_that_knows_that_nothing_happened_frees_its_key(firm: Firm) -> None:
    """A card that was declined may be charged by the next run."""
    firm.run("r1", firm.tool(then=unfunded))
    second = firm.run("r2", firm.tool())

    assert "transfer" in second.output[0]


def test_what_returned_as_failed_keeps_its_key(firm: Firm) -> None:
    """It did its work: whether that changed anything is not known."""
    firm.run("r1", firm.tool(then=lambda: clew.Failed("exit code 3")))
    second = firm.run("r2", firm.tool())

    assert [held("r1")] == second.output


def test_a_denied_call_takes_no_key(firm: Firm) -> None:
    """Denied is `not_started` (promise 5)."""
    agent = clew.Agent(payer("plain", firm.tool(), "1042").body, name="a", policy=lambda call: "no")
    firm.home().run_sync(agent, None, run_id="r1", signals=False)

    assert [] == list(firm.index.claims())


def test_a_probe_that_finds_nothing_lets_the_same_call_start_once_more(firm: Firm) -> None:
    """Attempt 2 is the same holder."""

    def once() -> None:
        if len(firm.paid) == 1:
            boom()

    firm.run("r1", firm.tool(then=once, probe=lambda call: clew.DidNotHappen(), in_doubt_s=0))
    number, claim = firm.index.last(claim_of(firm).sha256, "pay") or (0, None)

    assert ([("r1", "1042")] * 2, 2, 2) == (firm.paid, number, claim and claim.attempt)


def test_a_rerun_of_the_same_call_keeps_its_key(firm: Firm) -> None:
    """Idempotent on the other side: attempt 2 under the same effect key is the same holder."""
    idempotent: dict[str, Any] = {"replay": "idempotent", "window_s": 3600}
    firm.run("r1", firm.tool(then=boom, **idempotent))
    second = firm.run("r2", firm.tool(**idempotent))
    first = firm.resume("r1", firm.tool(**idempotent))

    assert ([held("r1", "open")], "transfer" in first.output[0], ["r1", "r1"]) == (
        second.output, True, [run for run, _ in firm.paid],
    )  # fmt: skip


# Deaths.


@pytest.mark.parametrize("resumed_first", [True, False])
@pytest.mark.parametrize("keep", [None, 0, 200])
@pytest.mark.parametrize("at", range(1, 5))
def test_a_death_at_any_append_leaves_one_payment(firm: Firm, at: int, keep: int | None, resumed_first: bool) -> None:
    """Between the claim and the start, between the start and the answer: somebody pays, and only once."""

    def probe(call: clew.Call) -> clew.Verdict:
        return clew.Happened() if ("r1", "1042") in firm.paid else clew.DidNotHappen()

    tool = firm.tool(probe=probe, in_doubt_s=0)
    with suppress(Crash, clew.Storage):
        firm.run("r1", tool, point=CrashPoint(at, keep))
    firm.memory.forget_writers()
    ended = firm.home().result("r1").operation.state == "completed"
    if resumed_first and not ended:
        firm.resume("r1", tool)
    firm.run("r2", tool)
    if not resumed_first and not ended:
        firm.resume("r1", tool)

    assert 1 == len(firm.paid)
    assert {"completed"} == {firm.home().result(run).operation.state for run in ("r1", "r2")}


def claimed_only(firm: Firm) -> None:
    """A run that died between its claim and its start."""
    with pytest.raises(clew.Storage):
        firm.run("r1", firm.tool(), point=CrashPoint(1, 0))


def test_a_claim_of_a_run_that_is_gone_is_taken_over(firm: Firm) -> None:
    """It never started, as its journal says under its lock; nobody need do anything."""
    claimed_only(firm)
    firm.memory.forget_writers()
    second = firm.run("r2", firm.tool())
    first = firm.resume("r1", firm.tool())

    assert ([("r2", "1042")], [held("r2")]) == (firm.paid, first.output)
    assert "transfer" in second.output[0]


def test_a_claim_of_a_run_that_may_live_is_not_taken_over(firm: Firm) -> None:
    """It may start in this very moment (promise 7); it is waited for a little."""

    def agent(run: Any, prompt: Any) -> Any:
        [leg] = firm.home().reader.see("r1").state.legs
        key = {"sha256": fingerprint_text("1042"), "text": "1042", "nonce": leg.nonce}
        names = {"step_id": "pay-1", "call_id": "c1", "idempotency_key": "r1:pay-1:c1"}
        firm.index.take(1, Claim(1, "pay", run_id="r1", attempt=1, at="-", **key, **names))
        return firm.run("r2", firm.tool()).output

    result = firm.home().run_sync(agent, None, run_id="r1", signals=False)

    assert ([held("r1", "starting")], []) == (result.output, firm.paid)
    assert 2.0 == round(sum(firm.clock.slept), 3)


def test_a_claim_whose_journal_is_gone_is_not_taken_over(firm: Firm) -> None:
    """What became of it nobody can tell any more."""
    firm.run("r1", firm.tool())
    firm.memory._journals.pop("r1")
    second = firm.run("r2", firm.tool())

    assert [held("r1", "unreadable")] == second.output


def test_a_claim_that_the_machine_refused_starts_nothing_and_is_no_hindrance(firm: Firm) -> None:
    """The journal stays sound, the agent is told, and may try again."""
    firm.index = Refusing(times=1)
    told: list[str] = []

    def agent(run: Any, prompt: Any) -> Any:
        try:
            run.call(pay, "1042")
        except Refused as fault:
            told.append(fault.code)
        return run.call(pay, "1042")

    pay = firm.tool()
    result = firm.home().run_sync(clew.Agent(agent, tools=[pay]), None, run_id="r1", signals=False)

    assert (["key_index_unusable"], "completed", 1) == (told, result.operation.state, len(firm.paid))


class Refusing(MemoryKeyIndex):
    """Publishes a claim and says that it could not be synced, as a dying disk does."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def take(self, number: int, claim: Claim) -> bool:
        taken = super().take(number, claim)
        if self.times:
            self.times -= 1
            raise clew.Storage("the sync failed", code="durability_barrier_failed", next="Look.")
        return taken


# The holder's answer.


@pytest.mark.parametrize("value", [{"transfer": "T-1"}, LONG], ids=["short", "beside the journal"])
def test_the_holders_answer_is_handed_on_where_the_tool_wants_it(firm: Firm, value: Any) -> None:
    """Nothing started here, and the journal says so; the agent has what happened."""
    firm.run("r1", firm.tool(then=lambda: value))
    second = firm.run("r2", firm.tool(on_held="answer"))

    assert ([value], 1) == (second.output, len(firm.paid))
    assert "not_started" in firm.words("r2")


@pytest.mark.parametrize(
    ("then", "state"), [(boom, "open"), (lambda: clew.Failed("exit code 3"), "committed")], ids=["open", "failed"]
)
def test_what_is_no_success_is_not_handed_on(firm: Firm, then: Any, state: str) -> None:
    """No false success (promise 8)."""
    firm.run("r1", firm.tool(then=then))
    second = firm.run("r2", firm.tool(on_held="answer"))

    assert [held("r1", state)] == second.output


def test_an_answer_to_other_arguments_is_not_handed_on(firm: Firm) -> None:
    """Who asked for 200 must not be told that 200 were paid."""
    same: dict[str, Any] = {"key": lambda **_: "one"}
    firm.run("r1", firm.tool(**same), "1042")
    second = firm.run("r2", firm.tool(on_held="answer", **same), "1043")

    assert [held("r1")] == second.output


# What a key may be.


@pytest.mark.parametrize(
    "key",
    [lambda **_: "", lambda **_: None, lambda **_: object(), lambda **_: 1 / 0, lambda missing: missing,
     lambda **_: "x" * 2000],
    ids=["blank", "null", "no JSON", "raises", "wants another argument", "long"],
)  # fmt: skip
def test_a_call_without_a_usable_key_is_refused_before_anything_is_recorded(firm: Firm, key: Any) -> None:
    """Without its key, nothing would keep it from happening again."""
    result = firm.home().run_sync(raising(firm.tool(key=key)), None, run_id="r1", signals=False)
    with pytest.raises(clew.NotCompleted) as error:
        result.raise_for_state()

    assert "invalid_business_key" == getattr(error.value.__cause__, "code", None)
    assert [] == firm.words("r1")


def test_arguments_that_were_left_out_have_their_defaults_in_the_key(firm: Firm) -> None:
    """`pay()` and `pay("1042")` are the same payment."""
    tool = firm.tool(key=lambda order, cents, **_: [order, cents])
    firm.home().run_sync(raising(tool), None, run_id="r1", signals=False)

    assert ['["1042",1]'] == [claim.text for claim in firm.index.claims()]


@pytest.mark.parametrize(
    "declared",
    [{"key": "order"}, {"effect": "none", "replay": "safe"}, {"on_held": "wait"}, {"key": None, "on_held": "answer"}],
    ids=str,
)
def test_a_key_that_cannot_stand_is_refused_at_its_declaration(firm: Firm, declared: dict[str, Any]) -> None:
    """Not at the first payment."""
    with pytest.raises(UsageError) as error:
        firm.tool(**declared)

    assert "invalid_tool" == error.value.code


def test_an_async_key_function_is_refused(firm: Firm) -> None:
    """It would give a coroutine, the same for every order."""

    async def key(order: str, **_: Any) -> str:
        return order

    with pytest.raises(UsageError) as error:
        firm.tool(key=key)

    assert "invalid_tool" == error.value.code


# What was recorded.


def test_a_call_of_before_its_tool_had_a_key_goes_on_without_one(home: clew.Home) -> None:
    """It was recorded as it was asked for; its key came later."""
    pay_in(home, "r1", then=boom, key=None)
    home.settle("r1", clew.DidNotHappen(), by="ops", reason="looked")
    result = home.resume_sync("r1", payer("plain", Firm().tool(), "1042"), signals=False)

    assert "transfer" in result.output[0]


def test_a_call_with_a_key_goes_on_with_it_when_its_tool_has_none_any_more(home: clew.Home) -> None:
    """Else taking the declaration away would let a second run's payment happen again."""
    pay_in(home, "r1", then=boom)
    home.settle("r1", clew.DidNotHappen(), by="ops", reason="looked")
    pay_in(home, "r2")
    result = home.resume_sync("r1", payer("plain", Firm().tool(key=None), "1042"), signals=False)

    assert [held("r2")] == result.output


def test_an_index_that_was_built_anew_between_claim_and_start_is_asked_again(firm: Firm) -> None:
    """A claim in an index that somebody removed meanwhile stands behind nobody."""
    firm.index = Replaced()
    result = firm.run("r1", firm.tool())

    assert ("completed", (2, claim_of(firm))) == (
        result.operation.state, firm.index.last(claim_of(firm).sha256, "pay")
    )  # fmt: skip


class Replaced(MemoryKeyIndex):
    """Is another one after the first claim."""

    def take(self, number: int, claim: Claim) -> bool:
        self._mark = "another"
        return super().take(number, claim)


def claim_of(firm: Firm) -> Claim:
    [found] = firm.index.claims()
    return found


def test_struct_of_a_claim_is_the_page_on_formats(firm: Firm) -> None:
    """Whoever reads the files goes by these names."""
    firm.run("r1", firm.tool())
    told = msgspec.to_builtins(claim_of(firm))

    assert {
        "schemaVersion", "tool", "sha256", "text", "runId", "stepId", "callId", "idempotencyKey", "attempt", "nonce",
        "at",
    } == set(told)  # fmt: skip


# Everything at once.


class Firms(RuleBasedStateMachine):
    """Runs that want two orders paid, and die, fail, are settled and resumed in any order, against what was paid."""

    def __init__(self) -> None:
        super().__init__()
        self.firm = Firm()
        self.runs: dict[str, str] = {}

    def pay(self) -> clew.Tool:
        """It may lose the line before or behind the payment, and a person looks into the books later."""

        def body(call: clew.Call, order: str) -> dict[str, str]:
            if self.fate == "before":
                boom()
            if self.fate == "nothing":
                unfunded()
            self.firm.paid.append((call.key.partition(":")[0], order))
            if self.fate == "behind":
                boom()
            return {"transfer": order}

        return clew.Tool(body, name="pay", effect="external", key=lambda order: order)

    fate = "returns"

    @rule(
        order=st.sampled_from(["a", "b"]),
        fate=st.sampled_from(["returns", "before", "behind", "nothing"]),
        at=st.integers(0, 4),
        keep=st.sampled_from([None, 0, 200]),
    )
    def begin(self, order: str, fate: str, at: int, keep: int | None) -> None:
        run = f"r{len(self.runs)}"
        self.runs[run] = order
        self.fate = fate
        with suppress(Crash, clew.Storage):
            self.firm.run(run, self.pay(), order, point=CrashPoint(at, keep))
        if at:
            self.firm.memory.forget_writers()

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), fate=st.sampled_from(["returns", "before", "behind"]))
    def resume(self, data: st.DataObject, fate: str) -> None:
        run = data.draw(st.sampled_from(sorted(self.runs)))
        self.fate = fate
        with suppress(Refused):
            self.firm.resume(run, self.pay(), self.runs[run])

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(sorted(self.runs)))
        paid = (run, self.runs[run]) in self.firm.paid
        with suppress(Refused):
            verdict = clew.Happened() if paid else clew.DidNotHappen()
            self.firm.home().settle(run, verdict, by="ops", reason="looked into the books")

    @rule()
    def rebuild(self) -> None:
        """An index that was lost is what the journals say."""
        self.firm.index = MemoryKeyIndex()
        report = self.firm.home().rebuild_keys()
        assert (True, []) == (report["complete"], report["conflicts"])

    @invariant()
    def each_order_is_paid_once(self) -> None:
        assert len(self.firm.paid) == len({order for _, order in self.firm.paid})

    @invariant()
    def no_key_is_held_twice(self) -> None:
        reader = self.firm.home().reader
        states = [reader.see(run).state for run in self.firm.memory.ids()]
        held_by = [self.runs[state.run_id] for state in states for call in state.calls.values() if holds(call)]
        assert len(held_by) == len(set(held_by))


def holds(call: Any) -> bool:
    return word_of(call) != "free"


TestFirms = Firms.TestCase
TestFirms.settings = settings(max_examples=60, stateful_step_count=12, deadline=None)
