"""Real agents in real processes that are really killed: ten with a planted fault each, and one without."""

import sys
from pathlib import Path
from typing import Any

import pytest

from clew.certify import answers
from clew.certify.report import Report
from clew.certify.trial import Wish, certify
from clew.errors import Refused, UsageError

AGENTS = Path(__file__).with_name("agents")
SERVER = ("-m", "clew.cli.certifier")
TOLD = {"pay": [{"answer": {"transfer": "T-1"}}], "turns": [{"answer": "pay them"}]}
PLANTED = {
    "repeats_an_effect": ("effect_repeated", "end:2"),
    "reads_the_clock": ("calls_diverged", "after:7"),
    "forgets_a_capability": ("capability_undeclared", "after:3"),
    "swallows_an_error": ("error_swallowed", "fails:3"),
    "writes_outside": ("writes_outside", "before:2"),
    "leaves_a_child": ("process_left", "none"),
    "random_order": ("calls_diverged", "after:7"),
    "result_is_no_json": ("result_not_json", "end:1"),
    "changes_arguments": ("calls_diverged", "before:8"),
    "probe_writes": ("probe_writes", "start:1"),
}
"""Each fault by the agent that has it: what it is called, and a point that shows it."""

linux = pytest.mark.skipif(sys.platform != "linux", reason="a trial forks, adopts and kills")


class World:
    """What would really have happened, and the folder that the agents are told to work in."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "world" / "happened"
        self.file.parent.mkdir()
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.said: list[str] = []

    @property
    def happened(self) -> list[str]:
        """Everything outside, also what was written beside."""
        return sorted(path.name for path in self.file.parent.iterdir())

    def try_out(self, name: str, agent: str = "agent", **how: Any) -> Report:
        """A trial of one of the agents."""
        given = answers.Answers(told for tool, entries in TOLD.items() for told in answers.entries("", tool, entries))
        how = {"answers": given, "prompt": "go", **how}
        wish = Wish(f"{AGENTS / name}.py:{agent}", SERVER, self.workspace, again="clew certify it", **how)
        return certify(wish, self.said.append)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    monkeypatch.setenv("CERTIFY_WORLD", str(made.file))
    return made


def serving(world: str) -> list[int]:
    """Processes that were started for a world of a test, by their environment."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"CERTIFY_WORLD={world}".encode() in environ.read_bytes().split(b"\0"):
                found.append(int(environ.parent.name))
        except OSError:
            continue
    return found


def codes(report: Report) -> set[str]:
    return {found.code for found in report.findings}


@linux
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found_at_its_point(name: str, world: World) -> None:
    """A certificate that a faulty agent gets too is worth nothing."""
    code, point = PLANTED[name]

    report = world.try_out(name, point=point)

    assert (True, 3, []) == (code in codes(report), report.exit_code, world.happened)


@linux
def test_a_good_agent_is_certified(world: World) -> None:
    """A finding that is none sends its reader looking for what is not there."""
    report = world.try_out("clean", "settle", points=10)

    assert ([], 10, 10, 0) == (report.findings, report.planned, report.ran, report.exit_code)
    assert (8, 0, []) == (report.deaths, report.not_reached, world.happened)


@linux
def test_a_good_family_is_certified(world: World) -> None:
    """Calls side by side, children, approvals and keys die like all else; so late that the child is born."""
    family = answers.read_file(AGENTS / "family.json")

    report = world.try_out("family", answers=family, points=7)

    assert ([], 7, []) == (report.findings, report.ran, world.happened)


@linux
def test_an_agent_with_a_conversation_is_certified(world: World) -> None:
    """Each life begins it anew; a message that a death loses or doubles is another output."""
    report = world.try_out("talks", session="talk")

    assert (0, [], []) == (report.exit_code, report.findings, world.happened)
    assert report.outcomes["completed"] > report.planned / 2


@linux
def test_what_is_not_tried_is_said(world: World) -> None:
    """Fewer points than were asked for must not look like all of them."""
    report = world.try_out("clean", "settle", points=30, budget_s=0.001)

    assert (30, 0, 5) == (report.planned, report.ran, report.exit_code)


@linux
def test_nobody_is_asked_who_has_no_answer(world: World) -> None:
    """What a bank would have said cannot be made up; and the bank is not asked."""
    with pytest.raises(Refused) as refused:
        world.try_out("probe_writes", answers=answers.Answers())

    assert ("answer_missing", "pay", []) == (refused.value.code, refused.value.facts["tool"], world.happened)


@linux
def test_a_finding_is_seen_again_by_its_point(world: World) -> None:
    """A report that cannot be acted on is filed away."""
    first = world.try_out("reads_the_clock", points=6)
    point = first.findings[0].points[0]

    again = world.try_out("reads_the_clock", point=point)

    assert (first.findings[0].code, [point]) == (again.findings[0].code, again.findings[0].points)


@linux
def test_the_workspace_is_not_touched(world: World) -> None:
    """An agent on trial gets a copy: what its owner has there is not for trying."""
    (world.workspace / "1042.txt").write_text("mine", "utf-8")

    world.try_out("swallows_an_error", point="end:2")

    assert {"1042.txt": "mine"} == {path.name: path.read_text("utf-8") for path in world.workspace.iterdir()}


@linux
def test_an_agent_that_cannot_be_loaded_is_an_error(world: World) -> None:
    """Nothing can be said of an agent that does not exist."""
    with pytest.raises(UsageError) as error:
        world.try_out("clean", "nobody", points=1)

    assert "agent_not_found" == error.value.code


@linux
def test_no_process_is_left_behind_a_trial(world: World) -> None:
    """A tool that looks for left processes must not leave any."""
    world.try_out("leaves_a_child", point="before:3")

    assert [] == serving(str(world.file))


@linux
@pytest.mark.journeys
@pytest.mark.parametrize("name", PLANTED)
def test_sixty_points_find_each_planted_fault(name: str, world: World) -> None:
    """The promise of the command: ten faults, sixty points each, all found, nothing real done."""
    report = world.try_out(name, points=60)

    assert (60, True, []) == (report.ran, PLANTED[name][0] in codes(report), world.happened)


@linux
@pytest.mark.journeys
def test_every_point_of_a_good_family_finds_nothing(world: World) -> None:
    """Whatever is under way beside what dies."""
    report = world.try_out("family", answers=answers.read_file(AGENTS / "family.json"), points=200, budget_s=1200)

    assert ([], 200, []) == (report.findings, report.ran, world.happened)


@linux
@pytest.mark.journeys
def test_five_hundred_points_of_a_good_agent_find_nothing(world: World) -> None:
    """Two deaths in one life too, at every place the lot falls on, and no false alarm."""
    report = world.try_out("clean", "settle", points=500, budget_s=1200)

    assert ([], 500, []) == (report.findings, report.ran, world.happened)
