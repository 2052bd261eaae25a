"""A person's word where no proof is possible: an owner that is gone, a loss that is accepted."""

import json
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.compose import Close, Move
from clew.core.outcome import Outcome
from clew.core.records import Draft
from clew.runtime.recovery import owner_of_leg
from clew.stores.memory import MemoryRunStore
from clew.testing.clock import SetClock
from tests.disk.living import living, output_of
from tests.histories import completed
from tests.runtime.stage import (
    RUN,
    WHO,
    Bank,
    Forger,
    code_of,
    dies,
    kinds_of,
    mortal_home,
    payer,
    records_of,
    resumes_of,
    state_of,
)

AGENT = payer(Bank().tool(), "1")
HOLDS = """
import sys
import clew
@clew.agent(name="orders")
def orders(run, prompt):
    print("at work", flush=True)
    sys.stdin.readline()
clew.Home(sys.argv[1]).run_sync(orders, run_id="orders-1")
"""
PAYS = """
import sys
import clew
from tests.runtime.stage import Bank, payer
clew.Home(sys.argv[1]).run_sync(payer(Bank().tool(), "1"), run_id="orders-1")
"""


def elsewhere(*said: Any) -> clew.Home:
    """A run whose last leg was opened on another host."""
    store = MemoryRunStore()
    forger = Forger(store, AGENT, host="elsewhere", machineId="another")
    store.implant(RUN, (forger.say(*said) if said else forger).data)
    return clew.Home(".clew", takeover="operator", store=store, clock=SetClock())


# An owner that cannot be proven gone.


def test_a_persons_word_frees_the_run_and_is_journaled_with_the_evidence() -> None:
    """What was seen stands beside what was said, so that both can be judged later."""
    home = elsewhere()

    told = home.unlock(RUN, nonce="forged", **WHO)

    proofs = resumes_of(home)[0]["lockProof"]
    assert (1, "cannot_tell") == (told["leg"], told["proofs"][-1]["answer"])
    assert {"proof": "person", "answer": "yes", "fact": WHO["reason"], "by": "ann"} == proofs[-1]
    assert ["resume", "leg_ended"] == kinds_of(records_of(home))[-2:]


def test_a_persons_word_is_journaled_without_what_looks_like_a_secret() -> None:
    """C125: the evidence is often a command line that was pasted whole."""
    home = elsewhere()

    home.unlock(RUN, nonce="forged", by="ann", reason="curl -H " + "gh" + "p_" + "a1B2c3D4e5F6" * 3)

    assert "curl -H [redacted:github-token]" == resumes_of(home)[0]["lockProof"][-1]["fact"]


def test_an_unlocked_run_says_why_it_had_paused() -> None:
    """The owner that is freed had only put something back; what went wrong before that is still to be mended."""
    store = MemoryRunStore()
    forger = Forger(store, AGENT, host="elsewhere", machineId="another")
    outcome = Outcome("paused", "agent_error", {"code": "agent_error", "message": "ValueError: a bug"})
    forger.say(Move("PAUSE", "agent_error"), Close("pause", outcome))
    leg = {**owner_of_leg(store, 2, "restoring", "control"), "host": "elsewhere", "machineId": "another"}
    store.implant(RUN, forger.say(Draft("resume", {"completedStepIds": [], "resumedAt": "-", "leg": leg})).data)
    home = clew.Home(".clew", takeover="operator", store=store, clock=SetClock())
    before = home.reader.row(RUN)
    home.unlock(RUN, nonce="restoring", **WHO)
    after = home.reader.row(RUN)

    assert ("owner_elsewhere", "paused") == (before["shown"], after["shown"])
    assert [("agent_error", "ValueError: a bug")] * 2 == [(told["reason"], told["message"]) for told in (before, after)]
    assert before["pausedAt"] == after["pausedAt"]


def test_an_unlocked_run_goes_on() -> None:
    """The whole way: refused, unlocked, resumed."""
    home = elsewhere()
    refused = code_of(home.resume_sync, RUN, AGENT)
    home.unlock(RUN, nonce="forged", **WHO)

    result = home.resume_sync(RUN, AGENT)

    assert ("owner_not_proven", "completed") == (refused, result.operation.state)


def test_a_nonce_that_is_not_the_open_legs_is_refused() -> None:
    """The person looked at another owner than the one that would be freed."""
    home = elsewhere()
    before = len(records_of(home))

    code = code_of(home.unlock, RUN, nonce="another", **WHO)

    assert ("stale_nonce", before) == (code, len(records_of(home)))


def test_a_run_without_an_open_leg_has_nothing_to_unlock() -> None:
    """Said twice, the second time is told so."""
    home = elsewhere()
    home.unlock(RUN, nonce="forged", **WHO)

    assert "nothing_to_unlock" == code_of(home.unlock, RUN, nonce="forged", **WHO)


@pytest.mark.parametrize("said", [{"by": "", "reason": "x"}, {"by": "ann", "reason": ""}])
def test_nobody_unlocks_without_name_and_reason(said: dict[str, str]) -> None:
    """It is the one place where a word stands in for a proof."""
    assert "review_incomplete" == code_of(elsewhere().unlock, RUN, nonce="forged", **said)


def test_an_end_that_was_cut_off_is_written_by_who_unlocks() -> None:
    """Any writer that finds it writes it."""
    home = elsewhere(*completed()[:1])
    home.unlock(RUN, nonce="forged", **WHO)

    assert ("completed", "finish") == (state_of(home).state, kinds_of(records_of(home))[-1])


def test_a_living_writer_is_never_unlocked(tmp_path: Path) -> None:
    """The kernel's lock is no matter of opinion."""
    home = clew.Home(tmp_path / ".clew")
    with living(HOLDS, tmp_path / ".clew") as writer:
        writer.says()
        nonce = state_of(home).legs[0].nonce
        code = code_of(home.unlock, RUN, nonce=nonce, **WHO)
        writer.go_on()
        writer.ends()

    assert "run_state_locked" == code


# A loss that is accepted.


def shortened(tmp_path: Path, records: int = 6) -> clew.Home:
    """A finished run whose journal lost all but its first records; its head knows better."""
    output_of(PAYS, tmp_path / ".clew")
    home = clew.Home(tmp_path / ".clew", takeover="operator")
    journal = tmp_path / ".clew" / "runs" / f"{RUN}.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:records]))
    return home


def test_a_journal_shorter_than_its_head_is_refused(tmp_path: Path) -> None:
    """Nothing in the shorter file is wrong by itself; only the head can tell."""
    home = shortened(tmp_path)

    assert ["run_state_corrupt"] * 2 == [code_of(home.verify, RUN), code_of(home.resume_sync, RUN, AGENT)]


def test_an_accepted_loss_is_a_leg_of_its_own_and_is_journaled(tmp_path: Path) -> None:
    """Who accepted it, why, and how much there had been."""
    home = shortened(tmp_path)

    told = home.accept_loss(RUN, **WHO)

    payload = resumes_of(home)[0]
    assert {"runId": RUN, "keptSequence": 6, "headSequence": 12} == told
    assert {"accepted": "loss", **WHO, "keptSequence": 6, "headSequence": 12} == payload["integrityWaived"]
    assert ("repair", ["resume", "leg_ended"]) == (payload["leg"]["purpose"], kinds_of(records_of(home))[-2:])


def test_after_an_accepted_loss_the_run_verifies_and_waits_for_a_person(tmp_path: Path) -> None:
    """The head starts anew; the payment whose end was lost is open again, not forgotten."""
    home = shortened(tmp_path)
    home.accept_loss(RUN, **WHO)

    assert 8 == home.verify(RUN)["head"]
    assert "unknown_effect" == home.resume_sync(RUN, AGENT).reason


def test_a_head_that_cannot_be_read_is_a_loss_too(tmp_path: Path) -> None:
    """The lower bound itself is gone; the journal is whole."""
    home = shortened(tmp_path, 100)
    (tmp_path / ".clew" / "runs" / RUN / "head.json").write_bytes(b"{")
    refused = code_of(home.verify, RUN)
    home.accept_loss(RUN, **WHO)

    assert ("head_corrupt", 14) == (refused, home.verify(RUN)["head"])


def test_nothing_is_accepted_where_nothing_is_missing(tmp_path: Path) -> None:
    """A waiver without a loss would only hide the next one."""
    home = clew.Home(tmp_path / ".clew", takeover="operator")
    home.run_sync(AGENT, run_id=RUN)

    assert "nothing_to_accept" == code_of(home.accept_loss, RUN, **WHO)


def test_another_history_than_the_heads_is_not_accepted(tmp_path: Path) -> None:
    """The journal is long enough, and other records stand in it: that is no loss but a forgery or a mix-up."""
    home = clew.Home(tmp_path / ".clew", takeover="operator")
    home.run_sync(AGENT, run_id=RUN)
    place = tmp_path / ".clew" / "runs" / RUN / "head.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), "chain": "0" * 64}))

    assert ["run_state_corrupt", "nothing_to_accept"] == [
        code_of(home.verify, RUN),
        code_of(home.accept_loss, RUN, **WHO),
    ]


def test_other_damage_is_not_accepted(tmp_path: Path) -> None:
    """A flipped byte in the middle is not a shorter file."""
    home = shortened(tmp_path)
    journal = tmp_path / ".clew" / "runs" / f"{RUN}.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"ACCEPT"', b'"ACCEPt"'))
    before = journal.read_bytes()

    code = code_of(home.accept_loss, RUN, **WHO)

    assert ("run_state_corrupt", before) == (code, journal.read_bytes())


def test_the_loss_of_a_leg_elsewhere_needs_its_nonce() -> None:
    """Two things are taken on a person's word, and each is said."""
    home = elsewhere()
    store: Any = home.reader.store
    home.unlock(RUN, nonce="forged", **WHO)
    store._journals[RUN].data = bytearray(b"".join(store.raw(RUN).splitlines(keepends=True)[:3]))
    refused = [code_of(home.accept_loss, RUN, nonce=nonce, **WHO) for nonce in ("", "another")]
    home.accept_loss(RUN, nonce="forged", **WHO)

    assert (["owner_not_proven"] * 2, "person") == (refused, resumes_of(home)[0]["lockProof"][-1]["proof"])


def test_a_death_while_accepting_leaves_the_loss_to_be_accepted_again() -> None:
    """The head is published last: until then nothing is settled."""
    home, store = mortal_home()
    home.run_sync(payer(Bank().tool(), "1"), run_id=RUN)
    store._journals[RUN].data = bytearray(b"".join(store.raw(RUN).splitlines(keepends=True)[:6]))
    store.die_at(0)
    dies(home.accept_loss, RUN, **WHO)
    store.revive()

    assert 12 == home.accept_loss(RUN, **WHO)["headSequence"]
