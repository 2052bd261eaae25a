"""Row 18: a holder that is stopped for a minute is not dead. Many of them side by side, for a minute is a minute."""

import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from clew.errors import Held
from tests.crash.counts import some
from tests.disk.living import living
from tests.stores.lab import FileLab, read_all

STOPPED_S = 60.0

HOLDER = """
import sys
from pathlib import Path
from tests.stores.lab import FileLab, Hand
lab, hand = FileLab(Path(sys.argv[1])), Hand()
writer = lab.store.create("r1", hand.start(lab.store))
print("born", flush=True)
sys.stdin.readline()
writer.append(hand.batch({"n": "went on"}))
print("went on", flush=True)
"""


@pytest.mark.crash
def test_a_holder_that_is_stopped_for_a_minute_is_never_taken_over_and_goes_on(tmp_path: Path) -> None:
    """Age never counts: it would write when it is continued, and it does."""
    count = some(20, 40)
    labs = [FileLab(tmp_path / str(number)) for number in range(count)]
    for number in range(count):
        (tmp_path / str(number)).mkdir()
    with ExitStack() as stack:
        holders = [stack.enter_context(living(HOLDER, tmp_path / str(number))) for number in range(count)]
        for holder in holders:
            holder.says()
            holder.stop()
        until, states = time.monotonic() + STOPPED_S, list[object]()
        while time.monotonic() < until:
            for lab in labs:
                with pytest.raises(Held) as caught:
                    lab.store.open("r1", wait_s=0.0)
                states.append(caught.value.facts["state"])
        for holder in holders:
            os.kill(holder.pid, signal.SIGCONT)
            holder.go_on()
        said = [holder.says() for holder in holders]

    assert {"stopped"} == set(states)
    assert ["went on"] * count == said
    assert ["went on"] * count == [_last(lab) for lab in labs]


def _last(lab: FileLab) -> object:
    records, _ = read_all(lab.store.read("r1"))
    return records[-1].payload["n"]
