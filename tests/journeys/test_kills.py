"""Three hundred deaths of the orders agent, each followed to its honest end; forty of them in the daily suite."""

import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.town import ORDERS, Bank, Journey

AGENTS = ("settle", "settle_unasked")
# Appends of a whole run: birth, one call of a free tool (two), two of each payment and receipt, the summary, the end.
APPENDS = 1 + 2 + ORDERS * 4 + 2 + 1


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    """One bank for all journeys of a worker."""
    service = Bank(tmp_path_factory.mktemp("bank"))
    yield service
    service.close()


@pytest.fixture(scope="module")
def slow_bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    """A bank that announces a payment and holds its answer back, so that death can come in between."""
    service = Bank(tmp_path_factory.mktemp("slow"), delay_ms=400, announces=True)
    yield service
    service.close()


@pytest.fixture(scope="module")
def busy_bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    """A bank that takes a moment for each payment, so that most of a run's time is a time in which it can die."""
    service = Bank(tmp_path_factory.mktemp("busy"), delay_ms=60)
    yield service
    service.close()


def kills() -> list[tuple[str, str]]:
    """Every append before, torn and after, every payment on both sides, and deaths while resuming."""
    chance = random.Random(7)
    found = []
    for agent in AGENTS:
        found += [(agent, f"before:{n}") for n in range(1, APPENDS + 1)]
        found += [(agent, f"after:{n}") for n in range(1, APPENDS + 1)]
        found += [(agent, f"torn:{n}:{chance.randrange(1, 900)}") for n in range(1, APPENDS) for _ in range(4)]
        found += [(agent, f"{kind}:{n}") for kind in ("send", "heard") for n in range(1, ORDERS + 1)]
    return found


ALL = kills()
DAILY = ALL[::7]
LONG = [kill for kill in ALL if kill not in DAILY]


def walk(folder: Path, bank: Bank, agent: str, kill: str, name: str) -> Journey:
    """One death, and all that follows."""
    journey = Journey(folder, name, bank, agent)
    assert journey.go("run", kill) == -signal.SIGKILL, "it did not die there"
    journey.see_it_through()
    return journey


@pytest.mark.parametrize(("agent", "kill"), DAILY, ids=str)
def test_a_death_ends_in_one_payment_and_one_receipt(tmp_path: Path, bank: Bank, agent: str, kill: str) -> None:
    """The main promise: whatever the moment of death, every order is paid once and the run ends honestly."""
    journey = walk(tmp_path, bank, agent, kill, f"{agent[-7:]}-{kill}".replace(":", "-").replace("_", "-"))

    assert journey.expected() == journey.report()


@pytest.mark.journeys
@pytest.mark.parametrize(("agent", "kill"), LONG, ids=str)
def test_every_other_death_does_too(tmp_path: Path, bank: Bank, agent: str, kill: str) -> None:
    """The same at every other moment."""
    journey = walk(tmp_path, bank, agent, kill, f"{agent[-7:]}-{kill}".replace(":", "-").replace("_", "-"))

    assert journey.expected() == journey.report()


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("payment", range(1, ORDERS + 1))
def test_a_death_between_commit_and_answer_pays_once(tmp_path: Path, slow_bank: Bank, agent: str, payment: int) -> None:
    """The worst moment: the money has moved and nobody but the bank knows."""
    journey = Journey(tmp_path, f"commit-{agent[-7:]}-{payment}".replace("_", "-"), slow_bank, agent)
    victim = journey.start("run")
    for _ in range(payment):
        slow_bank.says()
    victim.kill()
    assert journey.finish(victim) == -signal.SIGKILL
    journey.see_it_through()
    for _ in range(ORDERS - payment):
        slow_bank.says()

    assert journey.expected() == journey.report()


def dead_at_random(folder: Path, bank: Bank, seed: int) -> Journey:
    """A run that died at a time that nobody chose; one that was faster than its death does not count."""
    chance = random.Random(seed)
    number = 0
    while True:
        journey = Journey(folder, f"random-{seed}-{number}", bank, AGENTS[seed % 2])
        victim = journey.start("run")
        number += 1
        try:
            victim.wait(timeout=chance.uniform(0.1, 0.5) / number)
        except subprocess.TimeoutExpired:
            victim.kill()
        if journey.finish(victim) == -signal.SIGKILL:
            return journey


@pytest.mark.journeys
@pytest.mark.parametrize("seed", range(80))
def test_a_death_at_a_random_time_does_too(tmp_path: Path, busy_bank: Bank, seed: int) -> None:
    """Times that nobody chose."""
    journey = dead_at_random(tmp_path, busy_bank, seed)
    journey.see_it_through()

    assert journey.expected() == journey.report()


@pytest.mark.parametrize(("first", "second"), [("heard:2", "before:1"), ("send:1", "after:2")])
def test_a_second_death_while_resuming_does_too(tmp_path: Path, bank: Bank, first: str, second: str) -> None:
    """Recovery is where stores lose what they had: a death inside it changes nothing."""
    journey = Journey(tmp_path, f"twice-{first}-{second}".replace(":", "-"), bank, "settle")
    died = journey.go("run", first), journey.go("resume", second)
    journey.see_it_through()

    assert died == (-signal.SIGKILL, -signal.SIGKILL)
    assert journey.expected() == journey.report()
