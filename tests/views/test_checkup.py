"""What a doctor says."""

from typing import Any

import msgspec
import pytest

from clew.core.checkup import Checkup, Some, Survey, Volume
from clew.views.checkup import MIB, Finding, exit_code, finding_lines, judge, summary

NOW_MS = 1_795_960_800_000
PLACE = "/srv/shop/.clew"
DISK = Volume("ext4", True, ("rw", "relatime"), (), 50_000 * MIB, 90_000 * MIB, 1_000_000, 2_000_000)
HOME = Survey(PLACE, DISK, "own")
SOUND = Checkup(HOME, NOW_MS, newest="2026-11-29T13:54:02.000Z", newest_run="r1", versions={"clew": "0.1.0"}, runs=3)


def volume(**changes: Any) -> Checkup:
    return folder(volume=msgspec.structs.replace(DISK, **changes))


def folder(**changes: Any) -> Checkup:
    return msgspec.structs.replace(SOUND, survey=msgspec.structs.replace(HOME, **changes))


def runs(**changes: Any) -> Checkup:
    return msgspec.structs.replace(SOUND, **changes)


def about(found: Checkup, subject: str) -> list[Finding]:
    return [finding for finding in judge(found) if finding.about == subject]


def test_a_sound_home_is_said_to_be_sound() -> None:
    """A doctor that only ever complains is not asked again."""
    findings = judge(SOUND)

    assert ({"ok"}, 0) == ({finding.level for finding in findings}, exit_code(findings))
    assert "nothing to complain of" == summary(findings)
    assert {"home", "disk", "sync", "lock", "space", "clock", "runs", "versions"} == {
        finding.about for finding in findings
    }


@pytest.mark.parametrize(
    ("standing", "level", "exit_"),
    [
        ("own", "ok", 0), ("unmarked", "note", 0), ("missing", "note", 0), ("foreign", "note", 0), ("", "note", 0),
        ("copy", "problem", 4), ("unknown_layout", "problem", 4), ("corrupt", "problem", 12),
    ],
)  # fmt: skip
def test_the_home_is_judged_by_what_its_file_says(standing: str, level: str, exit_: int) -> None:
    """In a copy no run goes on; its exit code is the one that `clew resume` would end with."""
    findings = judge(folder(standing=standing, why="layout 7"))
    (found,) = [finding for finding in findings if finding.about == "home"]

    assert (level, exit_) == (found.level, exit_code(findings))
    assert bool(found.next) is (level == "problem")


def test_a_home_file_that_cannot_be_looked_at_has_the_exit_code_of_its_error() -> None:
    """The rest of the home is looked at all the same."""
    findings = judge(folder(standing="unreadable", why="cannot open it", exit=13))

    assert (13, "cannot open it") == (exit_code(findings), findings[0].what)


def test_a_copy_is_freed_by_the_command_that_is_named() -> None:
    """A path with a space must be typed as one word."""
    (found,) = about(folder(standing="copy", path="/srv/my shop/.clew"), "home")

    assert "clew unlock --home '/srv/my shop/.clew' --by NAME --reason TEXT" in found.next


@pytest.mark.parametrize(
    ("changes", "level", "word"),
    [
        ({}, "ok", "device"),
        ({"kind": "xfs"}, "ok", "device"),
        ({"kind": "tmpfs"}, "warning", "memory"),
        ({"kind": "overlay"}, "warning", "container"),
        ({"kind": "nfs4", "local": False}, "warning", "other side"),
        ({"kind": "fuse.sshfs", "local": False}, "warning", "other side"),
        ({"kind": "newfs", "local": None}, "warning", "other side"),
        ({"options": ("rw", "nobarrier")}, "problem", "nobarrier"),
        ({"options": ("barrier=0",)}, "problem", "barrier=0"),
        ({"kind": "overlay", "options": ("volatile",)}, "problem", "volatile"),
        ({"kind": "tmpfs", "undone": ("eatmydata",)}, "problem", "eatmydata"),
    ],
)
def test_whether_a_sync_means_anything_is_said(changes: dict[str, Any], level: str, word: str) -> None:
    """Promise 12 rests on it, and nothing else tells the user that it does not hold here."""
    (found,) = about(volume(**changes), "sync")

    assert (level, True) == (found.level, word in found.what)
    assert (13 if level == "problem" else 0) == found.exit


@pytest.mark.parametrize(
    ("options", "told"),
    [(("rw", "relatime"), "ext4, mounted rw,relatime"), ((), "ext4"), (("rw", "lowerdir=" + "a" * 500), None)],
)
def test_the_file_system_is_told_with_its_options(options: tuple[str, ...], told: str | None) -> None:
    """Whoever knows more of it than clew does reads it there; a container's list of layers is cut."""
    (found,) = about(volume(options=options), "disk")

    assert found.what == told if told else len(found.what) < 250


def test_what_cannot_be_seen_of_a_disk_is_said_even_where_all_is_well() -> None:
    """A disk that lies is not found out by asking."""
    (found,) = about(SOUND, "sync")

    assert "is not seen" in found.what


@pytest.mark.parametrize(("local", "level"), [(True, "ok"), (False, "warning"), (None, "warning")])
def test_whether_a_dead_owner_can_be_proved_gone_is_said(local: bool | None, level: str) -> None:
    """Else the first crash on a network folder is the first time that anybody hears of it."""
    (found,) = about(volume(local=local), "lock")

    assert level == found.level


@pytest.mark.parametrize(
    ("changes", "levels"),
    [
        ({"free_bytes": 10 * MIB}, ["problem"]),
        ({"free_bytes": 64 * MIB}, ["warning"]),
        ({"free_bytes": 1024 * MIB}, ["ok"]),
        ({"free_bytes": None}, []),
        ({"free_inodes": 0}, ["ok", "problem"]),
        ({"free_inodes": 999}, ["ok", "warning"]),
        ({"free_inodes": None}, ["ok"]),
    ],
)
def test_the_room_that_is_left_is_judged(changes: dict[str, Any], levels: list[str]) -> None:
    """A full disk pauses a run in the middle of its payments."""
    assert levels == [finding.level for finding in about(volume(**changes), "space")]


def test_a_home_that_may_not_be_written_is_a_problem() -> None:
    """Looking goes on, running does not."""
    (found,) = about(volume(writable=False), "access")

    assert ("problem", 13) == (found.level, found.exit)


@pytest.mark.parametrize(
    ("changes", "level"),
    [
        ({}, "ok"),
        ({"newest": ""}, "ok"),
        ({"newest": "2026-11-29T14:00:01.900Z"}, "ok"),
        ({"newest": "2026-11-29T14:05:00.000Z"}, "warning"),
        ({"newest": "yesterday"}, "ok"),
        ({"now_ms": 1000}, "problem"),
        ({"now_ms": 1 << 45}, "problem"),
        ({"monotonic": False}, "problem"),
    ],
)
def test_the_clock_is_judged_by_the_year_and_by_the_newest_record(changes: dict[str, Any], level: str) -> None:
    """Windows and waiting times count from recorded times."""
    (found,) = about(runs(**changes), "clock")

    assert level == found.level


@pytest.mark.parametrize(
    ("field", "one", "level", "step"),
    [
        ("gone", {"run": "r1", "pid": 7, "host": "vm", "nonce": "n"}, "warning", "clew resume r1"),
        ("stopped", {"run": "r1", "pid": 7, "host": "vm", "nonce": "n"}, "warning", "kill -CONT 7"),
        ("elsewhere", {"run": "r1", "pid": 7, "host": "vm", "nonce": "n"}, "warning", "clew unlock r1 --nonce n"),
        ("torn", {"run": "r1"}, "note", ""),
        ("uncertain", {"run": "r1", "effects": 2, "tool": "pay", "step": "pay-1"}, "warning", "clew show r1 --effects"),
        ("unnamed", {"run": "r1", "name": "torn-9-abc"}, "note", "keep it"),
        ("waiting", {"run": "r1", "id": "pause-1", "type": "pause"}, "warning", "clew resume r1"),
        ("undeclared", {"tool": "pay", "run": "r1"}, "note", "@clew.tool(effect="),
    ],
)
def test_what_is_left_open_is_named_with_its_next_step(field: str, one: dict[str, Any], level: str, step: str) -> None:
    """Each is somebody's move; none of them breaks a promise, so none changes the exit code."""
    findings = judge(runs(**{field: Some().plus(**one)}))
    (found,) = [finding for finding in findings if finding.level != "ok"]

    assert (level, "r1", 0) == (found.level, found.where, exit_code(findings))
    assert step in found.next


def test_a_journal_that_cannot_be_read_is_named_by_line_and_byte() -> None:
    """Whoever mends it starts there."""
    one = {"run": "r1", "code": "run_state_corrupt", "message": "at line 7, byte 9: no", "exit": 12}
    (found,) = about(runs(unreadable=Some().plus(**one), worst_exit=12), "journal")

    assert ("problem", 12, "r1") == (found.level, found.exit, found.where)
    assert "at line 7, byte 9: no [run_state_corrupt]" == found.what


def test_the_exit_code_is_that_of_the_worst_problem_also_of_those_that_are_only_counted() -> None:
    """The sixth broken run is as broken as the first."""
    one = {"code": "c", "message": "m", "line": None, "byte": None, "exit": 12}
    many = Some.of({**one, "run": f"r{number}"} for number in range(9))
    findings = judge(runs(unreadable=many, worst_exit=13))

    assert (13, 6) == (exit_code(findings), len([each for each in findings if each.about == "journal"]))
    assert "… and 4 more like these" == [each.what for each in findings if each.about == "journal"][-1]


def test_runs_that_cannot_be_listed_are_not_said_to_be_none() -> None:
    """`0 runs` would be taken for an answer, and there is no run to verify."""
    one = {"run": "", "code": "c", "message": "cannot list", "next": "Give access.", "exit": 13}
    found = runs(runs=0, unreadable=Some().plus(**one), worst_exit=13)

    assert [Finding("problem", "journal", "cannot list [c]", "", "Give access.", 13)] == about(found, "journal")
    assert [] == about(found, "runs")


@pytest.mark.parametrize(
    ("field", "one", "level"),
    [
        ("too_open", {"path": "/srv/a b", "mode": "0644"}, "warning"),
        ("denied", {"path": "/srv/a b"}, "problem"),
        ("links", {"path": "/srv/a b"}, "problem"),
        ("misplaced", {"path": "/srv/a b", "kind": "folder", "wanted": "file"}, "problem"),
        ("misplaced", {"path": "/srv/a b", "kind": "other", "wanted": "folder"}, "problem"),
        ("misplaced", {"path": "/srv/a b", "kind": "other", "wanted": ""}, "warning"),
        ("left_behind", {"path": "/srv/a b"}, "note"),
        ("strange_commands", {"path": "/srv/a b"}, "warning"),
    ],
)
def test_what_lies_there_and_should_not_is_named(field: str, one: dict[str, Any], level: str) -> None:
    """By its path, and with what to do."""
    (found,) = [each for each in judge(folder(**{field: Some().plus(**one)})) if each.level != "ok"]

    assert (level, "/srv/a b") == (found.level, found.where)
    assert found.next


@pytest.mark.parametrize("changes", [{"ignored": False}, {"whole": False}])
def test_what_is_to_know_of_the_folder_is_a_note(changes: dict[str, Any]) -> None:
    """Nothing is wrong with a run for it."""
    (found,) = [each for each in judge(folder(**changes)) if each.level != "ok"]

    assert "note" == found.level


def test_what_was_only_believed_is_said() -> None:
    """A finished journal that was changed since is found by `clew verify` alone."""
    (found,) = about(runs(believed=2, alive=1), "runs")

    assert "3 runs, 1 of them under way; of 2 that have ended only the head was read" == found.what
    assert "clew verify" in found.next


def test_a_home_in_memory_has_no_volume_to_judge() -> None:
    """It ends with its process, and that is said."""
    found = {finding.about for finding in judge(runs(survey=Survey("memory")))}

    assert {"home", "clock", "runs", "versions"} == found


def test_findings_are_lines_with_the_level_as_a_word() -> None:
    """No state by colour alone; whatever was recorded cannot steer the terminal."""
    lines = finding_lines([Finding("ok", "home", "fine"), Finding("problem", "journal", "a\x1b[2Jb", "r1", "look", 12)])

    assert [
        "OK       home     fine",
        "PROBLEM  journal  a\\x1b[2Jb  [r1]",
        "                  next: look",
    ] == lines


def test_the_summary_counts_what_is_to_do() -> None:
    """One line at the end for who does not read the rest."""
    levels: list[Any] = ["ok", "note", "warning", "warning", "problem"]

    assert "1 problem, 2 warnings, 1 note" == summary([Finding(level, "x", "y") for level in levels])
