import json
import re
import subprocess
from collections.abc import Callable

import pytest

from clew.core.chain import genesis
from clew.core.codec import encode_append, read_record
from clew.core.records import Draft
from tests.cli.shell import Done, Shell

WHO = ("--by", "ann", "--reason", "looked")


@pytest.fixture
def doubtful(shell: Shell) -> Shell:
    """A folder with a run that waits for a person."""
    shell.raise_flag("boom")
    shell("run", "agent.py:settle", "1042", "--run-id", "k3f9x2")
    return shell


def test_the_evidence_is_shown_before_it_is_settled(doubtful: Shell) -> None:
    """Whoever settles must have seen what was asked for, under which key, when, and what was said about it."""
    done = doubtful("settle", "k3f", "happened", *WHO, "--evidence", "line 14", "--evidence", "mail")

    told = done.err
    assert 0 == done.code
    assert "pay-1 pay: happened, says ann\n" == done.out
    assert "effect     pay order=1042 cents=4200" in told
    assert "key        k3f9x2:pay-1:c1" in told
    assert "ConnectionError: the line is dead" in told
    assert "evidence: line 14" in doubtful("show", "k3f", "--log").out


def test_a_settlement_as_json_is_the_effect(doubtful: Shell) -> None:
    """A program that settles wants to see what it settled."""
    done = doubtful("settle", "k3f", "pay-1", "did-not-happen", *WHO, "--json")

    assert ("pay-1", "did_not_happen", "ann") == (
        done.json["stepId"], done.json["review"]["outcome"], done.json["review"]["by"],
    )  # fmt: skip
    assert "" == done.err


def test_an_effect_is_found_by_its_whole_key(doubtful: Shell) -> None:
    """It is what the other side's list shows."""
    done = doubtful("settle", "k3f9x2:pay-1:c1", "happened", *WHO)

    assert 0 == done.code


def test_an_effect_that_is_given_up_ends_the_run(doubtful: Shell) -> None:
    """And it stays listed."""
    done = doubtful("settle", "k3f", "give-up", *WHO)

    assert (0, True) == (done.code, "FAILED  k3f9x2" in done.err)


def test_a_settlement_stands(doubtful: Shell) -> None:
    """4: a second, contradicting word is refused."""
    doubtful("settle", "k3f", "pay-1", "happened", *WHO, "--result", "7")

    done = doubtful("settle", "k3f", "pay-1", "did-not-happen", *WHO, "--json")

    assert (4, "review_conflict") == (done.code, done.error["code"])


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("k3f",), "invalid_settlement"),
        (("k3f", "maybe"), "invalid_settlement"),
        (("k3f", "pay-1", "maybe"), "invalid_settlement"),
        (("k3f", "did-not-happen", "--result", "7"), "invalid_settlement"),
        (("k3f", "happened", "--result", "{T-7}"), "result_not_json"),
        (("k3f", "happened", "--reason", " "), "review_incomplete"),
        (("a:b", "happened"), "invalid_key"),
    ],
)
def test_a_settlement_that_says_too_little_or_too_much_is_refused(
    doubtful: Shell, typed: Callable[..., Done], words: tuple[str, ...], code: str
) -> None:
    """2, and nothing was touched."""
    before = doubtful.bytes_and_times()
    who = WHO if "--reason" not in words else WHO[:2]

    done = typed("settle", *words, *who, "--json")

    assert (2, code) == (done.code, done.error["code"])
    assert before == doubtful.bytes_and_times()


def test_a_settlement_without_a_name_is_wrong_usage(doubtful: Shell) -> None:
    """Who and why are required, in so many words."""
    done = doubtful("settle", "k3f", "happened", "--json")

    assert (2, "invalid_command_line") == (done.code, done.error["code"])
    assert "--by" in done.error["message"]


def test_a_living_run_is_paused_from_another_process(shell: Shell) -> None:
    """23, at the next safe point: the call that had started ended."""
    live = shell.holding()
    asked = shell("pause", "held", "--reason", "lunch")
    paused = live.end()

    assert (0, 23, []) == (asked.code, paused.code, shell.payments)
    assert "held pauses at its next safe point\n" == asked.out


def test_a_living_run_is_aborted_from_another_process(shell: Shell) -> None:
    """3, and it never goes on."""
    live = shell.holding()
    asked = shell("abort", "held", "--json")
    aborted = live.end()
    again = shell("resume", "held")

    assert (0, 3, 4, []) == (asked.code, aborted.code, again.code, shell.payments)
    assert ("abort", "applied") == (asked.json["command"], asked.json["status"])


def test_a_dead_run_is_aborted_with_the_proof_and_its_effects_stay_listed(shell: Shell) -> None:
    """The operator's act: on what it rests and what it leaves behind is printed."""
    shell.raise_flag("die")
    shell("run", "agent.py:settle", "1042", "--run-id", "k3f9x2")

    done = shell("abort", "k3f", "--by", "ann", "--reason", "wrong file")

    assert (0, "k3f9x2 is aborted and never goes on\n") == (done.code, done.out)
    assert "process_gone: yes" in done.err
    assert "pay-1  pay order=1042 cents=4200: started, no answer" in done.err
    assert "FAILED  k3f9x2" in shell("ls").out


def test_nothing_is_paused_that_does_not_run(doubtful: Shell) -> None:
    """4, in words."""
    done = doubtful("pause", "k3f", "--json")

    assert (4, "run_not_living") == (done.code, done.error["code"])


def test_an_owner_elsewhere_is_shown_and_unlocked_by_its_nonce(shell: Shell) -> None:
    """A run from another machine: shown as that, held for a resume, free after a person's word."""
    shell.raise_flag("die")
    shell("run", "agent.py:settle", "1042", "--run-id", "k3f9x2")
    moved = _move_to_another_machine(shell)
    listed, held = shell("ls"), shell("resume", moved, "--json")
    nonce = held.error["facts"]["nonce"]
    wrong = shell("unlock", moved, "--nonce", "0" * 16, *WHO, "--json")
    freed = shell("unlock", moved, "--nonce", nonce, *WHO)

    assert [0, 11, 4, 0] == [each.code for each in (listed, held, wrong, freed)]
    assert f"OWNER ELSEWHERE  {moved}" in listed.out
    assert f"clew unlock {moved[:3]} --nonce {nonce} --by … --reason …" in listed.out
    assert ("owner_not_proven", "stale_nonce") == (held.error["code"], wrong.error["code"])
    assert f"nonce      {nonce}" in freed.err


def _move_to_another_machine(shell: Shell) -> str:
    """The same journal as another host would have written it, chain and all."""
    source = shell.folder / ".clew" / "runs" / "k3f9x2.jsonl"
    old = [read_record(line) for line in source.read_bytes().splitlines()]
    chain, data, after = genesis("k3f9x2"), b"", 0
    while after < len(old):
        group = [each for each in old if each.append == old[after].append]
        drafts = [
            Draft(each.kind, json.loads(json.dumps(each.payload).replace('"host": "', '"host": "far-')))
            for each in group
        ]
        batch = encode_append(
            "k3f9x2", after=after, chain=chain, drafts=drafts, timestamp=group[0].timestamp,
            event_ids=[str(each.event_id) for each in group],
        )  # fmt: skip
        chain, data, after = batch.chain, data + batch.data, batch.last
    source.write_bytes(data)
    for head in source.with_suffix("").glob("head.json"):
        head.unlink()
    return "k3f9x2"


def test_half_an_acceptance_of_a_loss_is_none(typed: Callable[..., Done]) -> None:
    """A loss is accepted for one run, by name."""
    done = typed("verify", "--accept-loss", *WHO, "--json")

    assert (2, "acceptance_incomplete") == (done.code, done.error["code"])


def test_a_loss_is_accepted_and_the_run_can_go_on(shell: Shell) -> None:
    """The way out when a disk lost what its head still names."""
    shell("run", "agent.py:settle", "1 2", "--run-id", "lost", "--max-calls", "1")
    journal = shell.folder / ".clew" / "runs" / "lost.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    last = json.loads(lines[-1])["append"]
    journal.write_bytes(b"".join(line for line in lines if json.loads(line)["append"] != last))
    damaged = shell("verify", "lost")
    accepted = shell("verify", "lost", "--accept-loss", *WHO)
    verified = shell("verify", "lost")

    assert [12, 0, 0] == [each.code for each in (damaged, accepted, verified)]


def test_a_run_that_was_settled_while_it_lay_dead_is_still_said_to_be_dead(shell: Shell) -> None:
    """The settling leg has ended in good order, but nobody runs the run: it must not be listed as running."""
    shell.raise_flag("die")
    shell("run", "agent.py:settle", "1042", "--run-id", "k3f9x2")
    shell("settle", "k3f", "happened", *WHO)

    listed = shell("ls")

    assert listed.out.startswith("INTERRUPTED  k3f9x2  1042   nobody runs it since ")
    assert "next: clew resume k3f\n" in listed.out


def test_a_copied_home_is_freed_by_its_path(doubtful: Shell) -> None:
    """Who said so stands in the home; its runs go on, under the evidence that they always needed."""
    subprocess.run(["cp", "-r", ".clew", "copy"], cwd=doubtful.folder, check=True)

    before = doubtful("settle", "k3f", "happened", *WHO, "--home", "copy", "--json")
    freed = doubtful("unlock", "--home", "copy", "--by", "ann", "--reason", "moved house", "--json")
    after = doubtful("settle", "k3f", "happened", *WHO, "--home", "copy")

    assert ("home_copied", "ann", 0) == (before.error["code"], freed.json["unlocked"]["by"], after.code)


@pytest.mark.parametrize("words", [("k3f",), ("--nonce", "n1"), (), ("--home", ".clew", "--nonce", "n1")])
def test_an_unlock_that_names_neither_a_leg_nor_a_home_is_wrong_usage(doubtful: Shell, words: tuple[str, ...]) -> None:
    """A word for one must never be taken for the other."""
    done = doubtful("unlock", *words, "--by", "ann", "--reason", "gone", "--json")

    assert (2, "unlock_incomplete") == (done.code, done.error["code"])


def test_a_home_that_is_no_copy_is_not_freed(doubtful: Shell) -> None:
    """The word is for the copy."""
    done = doubtful("unlock", "--home", ".clew", "--by", "ann", "--reason", "moved house", "--json")

    assert (4, "nothing_to_unlock") == (done.code, done.error["code"])


def test_an_abort_lists_every_started_effect_with_its_receipt(shell: Shell) -> None:
    """C44: "nothing happened" is said only where nothing was started; what was paid is named, with how it stands."""
    shell.raise_flag("boom")
    shell("run", "agent.py:settle", "1 2", "--run-id", "paid")
    shell("settle", "paid", "happened", "--by", "ann", "--reason", "looked", "--result", '{"transfer":"T-1"}')
    shell.raise_flag("boom")
    shell("resume", "paid")
    done = shell("abort", "paid", "--reason", "enough")
    shell("run", "agent.py:settle", "1", "--run-id", "idle", "--max-calls", "0")
    idle = shell("abort", "idle")

    assert ["pay-1  pay order=1", "pay-2  pay order=2"] == re.findall(r"pay-\d  pay order=\d", done.err)
    assert "pay-2  pay order=2 cents=4200: outcome unknown" in done.err
    assert (True, False) == ("it had started nothing" in idle.err, "it had started nothing" in done.err)


def test_an_aborted_run_is_over_at_every_door(shell: Shell) -> None:
    """C50: nothing goes on by itself at the next start, and nobody can make it go on."""
    shell.raise_flag("boom")
    shell("run", "agent.py:settle", "1 2", "--run-id", "over")
    shell("abort", "over")
    before = (shell.folder / "payments").read_text()
    doors = [shell("resume", "over", "--json"), shell("steer", "over", "go on", "--json")]
    every = shell("resume", "--all")

    assert ["run_already_finished"] * 2 == [door.error["code"] for door in doors]
    assert ("", before) == (every.out, (shell.folder / "payments").read_text())


def test_a_command_under_an_id_of_its_senders_is_done_once(shell: Shell) -> None:
    """Contract #203, #205: a script that was cut off sends again, and hears what became of the first."""
    shell.raise_flag("boom")
    shell("run", "agent.py:settle", "1", "--run-id", "once")
    told = [shell("abort", "once", "--control-id", "a-1", "--json") for _ in range(2)]
    other = shell("abort", "once", "--control-id", "a-1", "--reason", "another", "--json")

    assert ["applied", "duplicate"] == [done.json["status"] for done in told]
    assert "control_conflict" == other.error["code"]


def test_a_text_waits_for_a_dead_runs_agent(shell: Shell) -> None:
    """It is on the record before anybody goes on."""
    shell.raise_flag("die")
    shell("run", "agent.py:settle", "1042", "--run-id", "k3f9x2")
    done = shell("steer", "k3f", "skip 1043", "--by", "ann")
    empty = shell("steer", "k3f", " ", "--json")

    assert (0, "k3f9x2 is told when its agent asks\n") == (done.code, done.out)
    assert "command steer by ann" in shell("show", "k3f", "--log").out
    assert (2, "control_invalid") == (empty.code, empty.error["code"])
