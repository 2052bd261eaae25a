import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.ids import match_id
from clew.views.advice import RESULT_HINT, STATES
from clew.views.rows import block, blocks, label, short_names
from tests.views.samples import WHEN, effect, row, waiting

HEAD = "{}  k3f9x2-261129  settle orders.csv   writer pid 812 on vm: {}; last record 13:54"
THEIRS = "FOREIGN  k3f9x2-261129  settle orders.csv   another program began it and {}; 3 calls, last record 13:54"
DECIDED = "nobody is waited for: the approval was decided, or lapsed"
SETTLED = "nobody is waited for: no effect is in doubt now"
BEFORE = {"state": "paused", "pausedAt": "2026-11-29T13:30:00.000Z", "reason": "agent_error"}
IDS = st.text(st.sampled_from("abAB1-"), min_size=1, max_size=6).filter(lambda text: text[0] != "-")


def test_a_dead_run_reads_as_the_design_promises() -> None:
    """These lines are the product at its worst moment (DESIGN §10)."""
    lines = block(row("interrupted", **waiting(effect())), "k3f", WHEN)

    assert [
        "INTERRUPTED  k3f9x2-261129  settle orders.csv   writer pid 812 on vm gone since 13:54",
        "  1 effect uncertain: pay order=1042 cents=4200 (started 13:54:02, no answer)",
        "  next: clew settle k3f happened|did-not-happen --by … --reason …",
        "  or:   clew resume k3f  asks its probe or repeats it, where declared so",
        f"        {RESULT_HINT}",
    ] == lines


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (row("running"), "RUNNING  k3f9x2-261129  settle orders.csv   pid 812 on vm, 3 calls, last record 13:54"),
        (row("completed"), "COMPLETED  k3f9x2-261129  settle orders.csv   3 calls, done 13:54"),
        (
            row("paused", reason="pause_requested"),
            "PAUSED  k3f9x2-261129  settle orders.csv   on request (pause_requested), since 13:54",
        ),
        (
            row("paused", reason="approval_required"),
            f"PAUSED  k3f9x2-261129  settle orders.csv   {DECIDED} (approval_required), paused since 13:54",
        ),
        (
            row("paused", reason="unknown_effect", pausedAt="2026-11-29T13:30:00.000Z"),
            f"PAUSED  k3f9x2-261129  settle orders.csv   {SETTLED} (unknown_effect), paused since 13:30",
        ),
        (
            row("paused", reason="agent_error", pausedAt="2026-11-29T13:30:00.000Z"),
            "PAUSED  k3f9x2-261129  settle orders.csv   the agent raised (agent_error), since 13:30",
        ),
        (row("paused"), "PAUSED  k3f9x2-261129  settle orders.csv   it is paused, since 13:54"),
        (
            row("failed", reason="aborted"),
            "FAILED  k3f9x2-261129  settle orders.csv   it was aborted (aborted), since 13:54",
        ),
        (
            row("interrupted", legClosed=True),
            "INTERRUPTED  k3f9x2-261129  settle orders.csv   nobody runs it since 13:54",
        ),
        (
            row("stopped"),
            HEAD.format("STOPPED", "its process is stopped"),
        ),
        (
            row("owner_elsewhere"),
            HEAD.format("OWNER ELSEWHERE", "whether its process still lives cannot be told from here"),
        ),
        (row("foreign", foreign="finished", reason="succeeded"), THEIRS.format("recorded: finished (succeeded)")),
        (row("foreign", foreign="running"), THEIRS.format("recorded: running")),
        (row("foreign", foreign=""), THEIRS.format("did not record how it stands")),
        (row("running", leg=None), "RUNNING  k3f9x2-261129  settle orders.csv   it is running, 3 calls"),
        (
            {"runId": "k3f", "shown": "unreadable", "state": "unreadable", "message": "line 3, byte 812: no JSON"},
            "UNREADABLE  k3f   line 3, byte 812: no JSON",
        ),
    ],
)
def test_every_state_has_its_headline(changed: dict, expected: str) -> None:
    """The first line alone must tell where the run stands."""
    lines = block(changed, "k3f", WHEN)

    assert expected == lines[0]


@pytest.mark.parametrize("shown", ["running", "stopped", "aborting"])
def test_a_call_of_a_living_run_is_under_way(shown: str) -> None:
    """Nothing is in doubt while the process that knows is there."""
    lines = block(row(shown, **waiting(effect())), "k3f", WHEN)

    assert "  1 effect under way: pay order=1042 cents=4200 (started 13:54:02, no answer)" == lines[1]


@pytest.mark.parametrize("shown", list(STATES))
def test_the_state_is_the_first_word(shown: str) -> None:
    """Never a colour alone: a pipe and a colour-blind reader see the same."""
    word = label(row(shown))

    assert shown.upper().replace("_", " ") == word


def test_what_went_wrong_is_said_below() -> None:
    """The code says which kind, the message says which."""
    lines = block(row("paused", reason="agent_error", message="ValueError: a bug"), "k3f", WHEN)

    assert ["  ValueError: a bug", "  next: mend the agent, then clew resume k3f"] == lines[1:]


def test_what_went_wrong_before_somebody_looked_in_is_said_as_such() -> None:
    """The person who put a file back since would else be taken for the one who met it."""
    lines = block(row("paused", message="ValueError: a bug", **BEFORE), "k3f", WHEN)

    assert ["  when it paused: ValueError: a bug", "  next: mend the agent, then clew resume k3f"] == lines[1:]


@pytest.mark.parametrize("shown", ["interrupted", "running", "stopped", "owner_elsewhere"])
@pytest.mark.parametrize("message", ["", "ValueError: a bug"])
def test_a_leg_that_runs_no_agent_does_not_hide_why_the_run_is_paused(shown: str, message: str) -> None:
    """A command that was cut off is the smaller trouble; the greater one was there before."""
    lines = block(row(shown, message=message, **BEFORE), "k3f", WHEN)

    told = ["  paused since 13:30: the agent raised (agent_error)", *([f"  {message}"] if message else [])]
    assert told == lines[1 : 1 + len(told)]
    assert (shown == "interrupted") == ("  next: mend the agent, then clew resume k3f" in lines)


def test_a_leg_that_died_amid_a_decision_says_that_nobody_is_waited_for() -> None:
    """The yes is recorded, whatever became of its leg."""
    lines = block(row("interrupted", **{**BEFORE, "reason": "approval_required"}), "k3f", WHEN)

    assert f"  paused since 13:30: {DECIDED} (approval_required)" == lines[1]


def test_a_list_stands_in_columns() -> None:
    """States are compared by looking down."""
    lines = blocks([row("completed", runId="ab"), row("paused", reason="interrupted")], WHEN)

    assert [
        "COMPLETED  ab             settle orders.csv   3 calls, done 13:54",
        "PAUSED     k3f9x2-261129  settle orders.csv   by Ctrl-C (interrupted), since 13:54",
        "  next: clew resume k3f",
    ] == lines


def test_a_list_gives_names_that_are_enough() -> None:
    """Three characters that mean two runs would be refused when they are typed."""
    lines = blocks([row("paused", runId="k3fa-1"), row("paused", runId="k3fb-1")], WHEN)

    assert ["  next: clew resume k3fa", "  next: clew resume k3fb"] == [line for line in lines if "next" in line]


@given(st.lists(IDS, min_size=1, max_size=8, unique_by=str.casefold))
def test_a_short_name_finds_its_run(ids: list[str]) -> None:
    """What the advice prints is what the command accepts, whatever the other ids are."""
    names = short_names(ids)

    assert ids == [match_id(names[run_id], ids) for run_id in ids]


def test_a_short_name_is_three_characters_where_that_suffices() -> None:
    """The random part stands first for this."""
    names = short_names(["k3f9x2-261129", "a62pjv-261129"])

    assert {"k3f9x2-261129": "k3f", "a62pjv-261129": "a62"} == names


def test_a_row_says_what_it_was_not_read_from() -> None:
    """Else a list of a long run would look as if nothing had happened since its head was written."""
    lines = block(row("interrupted", unreadBytes=3 << 20), "k3f", WHEN)

    assert "  3.0 MiB of its journal were not read for this list; clew show k3f reads them" in lines


def test_a_child_says_whose_it_is() -> None:
    """A list of many runs is read by who belongs to whom."""
    lines = block(row("completed", parent="top"), "k3f", WHEN)

    assert ["COMPLETED  k3f9x2-261129  settle orders.csv (child of top)   3 calls, done 13:54"] == lines


def test_a_row_says_that_files_may_be_half_put_back() -> None:
    """Whoever lists the runs after a power cut must see which of them left a tree in pieces."""
    restoring = {"restoreId": "restore-1", "checkpointId": "k1", "later": False}
    lines = block(row("paused", reason="agent_error", restoring=restoring), "k3f", WHEN)

    assert ["  restore-1 of k1 was cut off; its files may be half put back", "  next: clew restore k3f k1"] == lines[1:]
