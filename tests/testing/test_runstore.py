"""The kit of run stores can fail: a planted fault is found by the case that names it; a stranger's store passes."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import SkipTest

import pytest

from clew.errors import ClewError
from clew.testing import RUN_STORE_CASES, Case, CaseFailed, CaseSkipped, RunStoreLab, check
from clew.testing.cases import appends, births, endings, heads, holders, inbox, poison, readers, spoiled
from clew.testing.kit import cases_of
from clew.testing.storelab import born, read_all
from tests.house.tree import ROOT
from tests.stores.lab import memory_lab
from tests.testing import faulty, slips
from tests.testing.sqlite_store import SqliteRunStore
from tests.testing.stranger import test_my_store as stranger_passes

NAMED = {case.name: case for case in RUN_STORE_CASES}

FAULTS: list[tuple[type[faulty.Sound], str]] = [
    (faulty.Sorting, "shuffled_lines_are_corrupt"),
    (faulty.Sorting, "reversed_lines_are_corrupt"),
    (faulty.Skipping, "a_doubled_line_is_corrupt"),
    (faulty.Lenient, "a_repeated_member_in_a_line_is_corrupt"),
    (faulty.Headless, "a_head_ahead_of_a_clean_journal_is_corrupt"),
    (faulty.Headless, "another_chain_than_the_heads_is_corrupt"),
    (faulty.Alarmed, "a_half_written_end_of_a_living_leg_is_being_written"),
    (faulty.RepairingReader, "readers_change_nothing"),
    (faulty.RepairingReader, "half_a_last_line_is_torn"),
    (faulty.HoldingReader, "a_reading_holds_no_writer_up"),
    (faulty.Gapped, "a_gapped_append_is_refused"),
    (faulty.Gapped, "a_conflicting_append_is_refused"),
    (faulty.Renumbering, "shuffled_appends_are_refused"),
    (faulty.Doubling, "a_doubled_append_adds_nothing"),
    (faulty.Overwriting, "a_conflicting_append_is_refused"),
    (faulty.Hasty, "what_was_acknowledged_is_there_for_everyone"),
    (faulty.Hasty, "a_reader_beside_a_busy_writer_sees_whole_records_only"),
    (faulty.Trusting, "a_failed_sync_ends_the_writer"),
    (faulty.Undying, "a_failed_write_ends_the_writer"),
    (faulty.Undying, "a_writer_that_was_struck_inside_refuses_everything_after"),
    (faulty.InPieces, "an_append_interrupted_anywhere_is_never_acknowledged_twice_or_half"),
    (faulty.InPieces, "an_append_without_memory_anywhere_is_never_acknowledged_twice_or_half"),
    (faulty.Replacing, "a_living_run_is_not_begun_again"),
    (faulty.Replacing, "a_damaged_journal_is_not_replaced"),
    (faulty.CaseSensitive, "an_id_is_given_once_whatever_its_case"),
    (faulty.AnyName, "an_id_outside_the_pattern_begins_nothing"),
    (faulty.AnyName, "an_id_that_is_too_long_begins_nothing"),
    (faulty.HalfBorn, "an_interrupted_birth_leaves_a_whole_run_or_none"),
    (faulty.Racing, "of_births_that_collide_one_succeeds"),
    (faulty.CaseSensitive, "of_births_that_differ_by_case_alone_one_succeeds"),
    (faulty.Open, "a_held_run_is_refused_and_names_its_holder"),
    (faulty.Open, "of_two_stores_that_append_the_same_number_one_does"),
    (faulty.Cutting, "a_terminated_broken_line_is_corrupt"),
    (faulty.Cutting, "bytes_that_are_no_record_are_corrupt"),
    (faulty.Wasting, "a_torn_end_is_kept_cut_and_written_over"),
    (faulty.Forgetful, "a_piece_that_no_record_names_is_named_by_the_next_leg"),
    (faulty.LateLf, "a_missing_lf_is_written_before_anything_else"),
    (faulty.Sinking, "a_head_never_goes_back"),
    (faulty.Careless, "another_command_under_the_same_id_is_refused"),
    (faulty.Hushing, "a_gap_is_corrupt"),
    (faulty.Hushing, "a_gap_before_the_last_line_is_corrupt"),
    (faulty.Hushing, "a_missing_first_line_is_corrupt"),
    (faulty.Hushing, "conflicting_lines_are_corrupt"),
    (faulty.Hushing, "a_conflicting_last_line_is_corrupt"),
    (faulty.Hushing, "another_run_in_a_line_is_corrupt"),
    (faulty.Hushing, "not_a_number_in_a_line_is_corrupt"),
    (faulty.Hushing, "an_infinite_number_in_a_line_is_corrupt"),
    (faulty.Hushing, "a_number_out_of_range_in_a_line_is_corrupt"),
    (faulty.Hushing, "a_missing_kind_in_a_line_is_corrupt"),
    (faulty.Hushing, "an_unknown_kind_in_a_line_is_corrupt"),
    (faulty.Hushing, "a_missing_payload_in_a_line_is_corrupt"),
    (faulty.Hushing, "a_payload_that_is_no_object_in_a_line_is_corrupt"),
    (faulty.Hushing, "a_missing_version_in_a_line_is_corrupt"),
    (faulty.Hushing, "another_version_in_a_line_is_corrupt"),
    (faulty.Hushing, "a_fractional_sequence_in_a_line_is_corrupt"),
    (faulty.Hushing, "a_blank_event_id_in_a_line_is_corrupt"),
    (faulty.Hushing, "any_line_that_was_edited_is_corrupt"),
    (faulty.Hushing, "a_chain_that_begins_in_the_middle_is_corrupt"),
    (faulty.Hushing, "a_chain_that_stops_is_corrupt"),
    (faulty.Hushing, "a_line_of_another_runs_chain_is_corrupt"),
    (faulty.Inventing, "a_foreign_journal_is_read_as_it_is"),
    (faulty.NoCarriageReturn, "a_foreign_journal_of_windows_lines_is_read"),
    (faulty.Nearest, "a_position_where_no_record_begins_is_corrupt"),
    (faulty.Rowless, "a_head_is_read_as_it_was_published"),
    (faulty.Chatty, "a_store_without_runs_is_only_asked"),
    (faulty.Chatty, "a_birth_is_the_first_append"),
    (faulty.NoDevices, "a_device_of_windows_begins_nothing"),
    (faulty.Stillborn, "a_failed_birth_leaves_a_whole_run_or_none"),
    (faulty.Trustful, "nothing_is_appended_behind_an_end_that_was_not_repaired"),
    (faulty.Reclaiming, "a_living_owner_is_not_proved_gone"),
    (faulty.Reclaiming, "an_owner_elsewhere_cannot_be_told"),
    (faulty.Doubting, "an_owner_of_an_earlier_boot_is_proved_gone"),
    (faulty.Strict, "the_same_command_twice_is_one"),
    (faulty.Busy, "a_command_is_posted_beside_a_living_writer"),
    (faulty.Repeating, "commands_wait_by_id_until_they_are_answered"),
    (faulty.Deaf, "an_answer_is_found_by_its_sender"),
    (faulty.Hushing, "a_broken_only_line_is_corrupt"),
    (faulty.Hushing, "a_terminated_broken_only_line_is_corrupt"),
    (faulty.Hushing, "an_unterminated_record_with_another_number_is_corrupt"),
    (faulty.Hushing, "a_broken_line_before_the_last_append_is_corrupt"),
    (faulty.Hushing, "half_a_line_with_another_append_behind_is_corrupt"),
    (faulty.Hushing, "a_lost_sector_before_the_last_append_is_corrupt"),
    (faulty.Hushing, "an_empty_line_is_corrupt"),
    (faulty.Hushing, "a_whole_line_with_another_end_than_lf_is_corrupt"),
    (faulty.Hushing, "more_than_an_append_may_hold_is_corrupt"),
    (faulty.Hushing, "a_doubled_last_line_is_corrupt"),
    (faulty.Hushing, "a_doubled_journal_is_corrupt"),
    (faulty.Hushing, "a_repeated_member_inside_in_a_line_is_corrupt"),
    (faulty.Hushing, "a_sequence_in_quotes_in_a_line_is_corrupt"),
    (faulty.Hushing, "a_sequence_of_true_in_a_line_is_corrupt"),
    (faulty.Hushing, "bytes_that_are_no_utf_8_in_a_line_is_corrupt"),
    (faulty.Hushing, "a_byte_order_mark_in_a_line_is_corrupt"),
    (faulty.Hushing, "two_values_on_a_line_in_a_line_is_corrupt"),
    (faulty.Hushing, "a_journal_of_ours_with_windows_lines_is_corrupt"),
    (faulty.Hushing, "an_empty_journal_below_its_head_is_corrupt"),
    (faulty.Headless, "a_head_ahead_of_a_torn_end_is_corrupt"),
    (faulty.Sinking, "a_head_names_nothing_that_is_not_acknowledged"),
    (slips.Backwards, "records_are_read_in_the_order_of_the_appends"),
    (slips.Displaced, "a_record_is_found_again_by_its_position"),
    (slips.Ascii, "any_json_comes_back_as_it_was"),
    (slips.Final, "records_after_a_finish_are_kept"),
    (slips.Unchained, "any_changed_byte_never_gives_another_record"),
    (slips.AllOrNothing, "whole_lines_of_a_torn_append_are_records"),
    (slips.Distrustful, "one_byte_of_a_line_is_torn"),
    (slips.Distrustful, "a_sector_that_never_came_is_torn"),
    (slips.Distrustful, "zeros_behind_the_last_record_are_torn"),
    (slips.Distrustful, "whatever_sectors_of_the_last_append_were_lost_it_is_torn"),
    (slips.Distrustful, "a_torn_foreign_end_is_torn"),
    (slips.Jealous, "a_reading_begun_before_an_append_ends_with_whole_records"),
    (slips.Jealous, "a_reading_begun_before_a_repair_ends_with_whole_records"),
    (slips.Exact, "a_head_behind_the_journal_says_nothing"),
    (slips.Obliging, "an_unknown_run_is_said_so_by_every_door"),
    (slips.Obliging, "an_empty_journal_is_no_run"),
    (slips.Content, "a_missing_lf_is_no_loss"),
    (slips.Content, "a_journal_cut_at_any_byte_gives_the_records_before_the_cut"),
    (slips.Anxious, "a_whole_journal_is_clean"),
    (slips.Sharing, "an_end_behind_a_leg_closed_by_pause_is_torn"),
    (slips.Sharing, "an_end_behind_a_leg_closed_by_finish_is_torn"),
    (slips.Sharing, "an_end_behind_a_leg_closed_by_leg_ended_is_torn"),
    (slips.Fickle, "a_finished_reading_keeps_what_it_said"),
    (slips.Remembering, "a_reader_between_cut_and_next_append_sees_a_clean_end"),
    (slips.Short, "a_legal_id_names_a_run"),
    (slips.Unforgiving, "who_accepts_a_loss_reads_and_goes_on"),
    (slips.Impatient, "an_opener_waits_for_a_closing_writer"),
    (slips.Crowded, "many_stores_on_one_run_all_finish"),
    (slips.AnyCommand, "a_command_id_that_no_file_may_have_is_refused"),
    (slips.Blinkered, "a_writer_reads_what_stands_before_its_first_append"),
    (slips.Fussy, "a_torn_end_behind_the_head_is_torn"),
    (slips.Immortal, "a_closed_writer_does_nothing_more"),
    (slips.Clinging, "a_closed_writer_lets_the_next_one_in"),
    (slips.Unaware, "a_journal_that_somebody_else_changed_stops_its_writer"),
    (slips.Hurried, "an_interrupted_repair_can_be_done_again"),
    (slips.Unsynced, "a_failed_birth_leaves_a_whole_run_or_none"),
    (slips.Unsynced, "a_repair_that_cannot_be_synced_is_refused"),
]
OF_PROCESSES: list[tuple[type[SqliteRunStore], str]] = [
    (faulty.OneProcessOnly, "another_process_holds_until_it_is_killed_and_is_then_proved_gone"),
    (faulty.Blind, "of_two_processes_that_begin_a_run_one_does"),
]


@pytest.mark.parametrize(("fault", "name"), FAULTS, ids=lambda value: value if type(value) is str else value.__name__)
def test_a_planted_fault_is_found_by_the_case_that_names_it(fault: type[faulty.Sound], name: str) -> None:
    """A kit that passes everything would be worse than none, for its user would trust it."""
    with pytest.raises((CaseFailed, ClewError)):
        NAMED[name].run(faulty.lab_of(fault))


@pytest.mark.parametrize("name", sorted({name for _, name in FAULTS}))
def test_the_same_case_passes_where_no_fault_is_planted(name: str) -> None:
    """Otherwise it is the wrapping that it finds, and not the fault."""
    NAMED[name].run(faulty.lab_of(faulty.Sound))


@pytest.mark.parametrize(("fault", "name"), OF_PROCESSES)
def test_what_holds_in_one_process_only_is_found(fault: type[SqliteRunStore], name: str, tmp_path: Path) -> None:
    """It passes every test that its author runs in one process."""
    with pytest.raises(CaseFailed):
        NAMED[name].run(faulty.lab_of_processes(fault, tmp_path))


@pytest.mark.parametrize("case", RUN_STORE_CASES, ids=str)
def test_a_strangers_store_passes(case: Case[RunStoreLab], tmp_path: Path) -> None:
    """It is built by the protocols on something that is neither a file a run nor memory."""
    stranger_passes(case, tmp_path)


def test_who_only_looks_keeps_no_run_of_the_stranger_from_its_writer(tmp_path: Path) -> None:
    """Of two processes that wanted SQLite's lock exclusively at once, each was the other's reader, and none got it."""
    with closing(sqlite3.connect(f"{tmp_path}/runs.db-r1.lock", isolation_level=None)) as looker:
        looker.execute("begin")
        looker.execute("select * from sqlite_master").fetchall()
        writer = born(RunStoreLab(lambda: SqliteRunStore(f"{tmp_path}/runs.db")))[0]

    records = read_all(writer.read())[0]
    writer.close()

    assert [1] == [record.sequence for record in records]


def test_a_file_of_25_lines_is_enough_for_a_strangers_store() -> None:
    """More would be a framework, and nobody would use it."""
    lines = (ROOT / "tests" / "testing" / "stranger.py").read_text("utf-8").splitlines()

    assert len(lines) <= 25


def test_what_a_lab_cannot_do_is_skipped_with_its_reason() -> None:
    """A case that silently passes for want of something says what nobody has tried."""
    memory = memory_lab().store()
    why = {name: f"no {name} here" for name in ("raw", "implant", "fail", "elsewhere")}

    outcomes = [*check(endings.CASES[:3] + poison.CASES[:1], lambda: RunStoreLab(lambda: memory, cannot=why))]

    assert {"skipped"} == {outcome.verdict for outcome in outcomes}
    assert "this store has no 'implant': no implant here" == outcomes[0].reason


def test_what_a_lab_neither_does_nor_declares_fails() -> None:
    """Who forgot a line of the lab must not read "skipped" and be content."""
    memory = memory_lab().store()

    outcomes = [*check(endings.CASES[:3], lambda: RunStoreLab(lambda: memory))]

    assert {"failed"} == {outcome.verdict for outcome in outcomes}
    assert "give the lab its 'implant'" in outcomes[0].reason


def test_a_declared_lack_is_a_skip_for_pytest() -> None:
    """It is shown with its reason by the framework that the author has."""
    with pytest.raises(SkipTest, match="it lives in the memory of one process") as caught:
        NAMED["of_two_processes_that_begin_a_run_one_does"].run(memory_lab())

    assert caught.type is CaseSkipped


def test_every_case_is_in_the_list_once() -> None:
    """A case that is written and not listed is tried by nobody."""
    modules: list[Any] = [appends, births, endings, heads, holders, inbox, poison, readers, spoiled]
    written = [case for module in modules for case in cases_of(vars(module) | {"CASES": ()})]

    assert len(RUN_STORE_CASES) == len(NAMED)
    assert {case.name for case in written} == set(NAMED)


def test_every_case_has_found_a_fault() -> None:
    """One that has never failed may be one that cannot fail, and a bad store would pass it."""
    planted = {name for _, name in [*FAULTS, *OF_PROCESSES]}

    assert set(NAMED) == planted


def test_every_case_says_one_sentence() -> None:
    """It is all that the author of a failing store has to go by."""
    mute = [case.name for case in RUN_STORE_CASES if not case.asserts.endswith(".") or "\n" in case.asserts]

    assert [] == mute


def test_the_kit_needs_no_test_framework() -> None:
    """A store may be tested by whatever its author has, or by a script."""
    code = "import sys, clew.testing; print(sorted(set(sys.modules) & {'pytest', '_pytest', 'hypothesis', 'anyio'}))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == done.stdout.strip()
