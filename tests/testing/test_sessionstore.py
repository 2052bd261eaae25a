"""The kit of session stores can fail: a planted fault is found by the case that names it; a stranger's store passes."""

from pathlib import Path
from typing import Any

import pytest

from clew.errors import ClewError
from clew.testing import SESSION_STORE_CASES, Case, CaseFailed, SessionStoreLab
from clew.testing.cases import session_births, session_changes, session_lines, session_owners
from clew.testing.kit import cases_of
from tests.house.tree import ROOT
from tests.testing import faulty_sessions as faulty
from tests.testing.session_stranger import test_my_store as stranger_passes

NAMED = {case.name: case for case in SESSION_STORE_CASES}

FAULTS: list[tuple[type[faulty.Sound], str]] = [
    (faulty.Displaced, "an_append_says_where_its_lines_begin"),
    (faulty.Short, "a_legal_id_names_a_session"),
    (faulty.Greeting, "an_empty_session_that_is_opened_again_is_empty"),
    (faulty.Chatty, "a_store_without_sessions_is_only_asked"),
    (faulty.Listing, "what_is_kept_is_no_session"),
    (faulty.Doubling, "lines_come_back_in_the_order_of_the_appends"),
    (faulty.TextMode, "any_bytes_come_back_as_they_were"),
    (faulty.FirstPiece, "long_lines_are_kept_whole"),
    (faulty.Growing, "a_reading_ends_where_the_session_ended_at_its_beginning"),
    (faulty.Mending, "readers_change_nothing"),
    (faulty.Hasty, "what_was_acknowledged_is_there_for_everyone"),
    (faulty.Undying, "a_failed_write_ends_the_writer"),
    (faulty.Undying, "a_failed_sync_ends_the_writer"),
    (faulty.Undying, "a_closed_writer_does_nothing_more"),
    (faulty.InPieces, "an_append_interrupted_anywhere_is_never_half_acknowledged"),
    (faulty.AnyName, "an_id_outside_the_pattern_is_refused_at_every_door"),
    (faulty.Obliging, "an_unknown_session_is_said_so_by_every_door"),
    (faulty.CaseSensitive, "an_id_is_given_once_whatever_its_case"),
    (faulty.CaseSensitive, "of_births_that_differ_by_case_alone_one_succeeds"),
    (faulty.Racing, "of_births_that_collide_one_succeeds"),
    (faulty.Replacing, "what_is_there_is_not_begun_anew"),
    (faulty.Stillborn, "a_birth_whose_write_fails_leaves_a_whole_session_or_none"),
    (faulty.Stillborn, "a_birth_whose_sync_fails_leaves_a_whole_session_or_none"),
    (faulty.HalfBorn, "an_interrupted_birth_leaves_a_whole_session_or_none"),
    (faulty.Open, "a_held_session_is_refused_and_names_its_holder"),
    (faulty.Impatient, "an_opener_waits_for_a_closing_writer"),
    (faulty.Remembering, "who_opens_next_sees_what_was_written_before"),
    (faulty.Recreating, "a_session_that_was_deleted_stops_its_writer"),
    (faulty.Recreating, "a_session_that_was_replaced_stops_its_writer"),
    (faulty.Unguarded, "a_session_that_was_replaced_is_neither_cut_nor_migrated"),
    (faulty.Wasting, "a_cut_end_is_kept_beside_the_session"),
    (faulty.Numbering, "a_cut_that_was_interrupted_is_done_again"),
    (faulty.Late, "a_cut_whose_write_fails_loses_nothing"),
    (faulty.Late, "a_cut_whose_sync_fails_loses_nothing"),
    (faulty.Decoding, "a_backup_holds_every_byte"),
    (faulty.Overwriting, "a_backup_of_other_bytes_is_never_replaced"),
    (faulty.HalfBacked, "a_backup_whose_write_fails_is_made_at_the_next_try"),
    (faulty.HalfBacked, "a_backup_whose_sync_fails_is_made_at_the_next_try"),
    (faulty.LettingGo, "a_replaced_session_is_the_new_one_for_everyone"),
    (faulty.InPlace, "new_lines_may_be_made_from_the_old_ones"),
    (faulty.InPlace, "a_replacement_whose_write_fails_leaves_the_old_or_the_new"),
    (faulty.InPlace, "a_replacement_whose_sync_fails_leaves_the_old_or_the_new"),
    (faulty.InPlace, "a_source_that_fails_in_the_middle_replaces_nothing"),
    (faulty.Uncounted, "a_session_is_born_with_its_first_lines"),
]
OF_PROCESSES = {"another_process_holds_until_it_is_killed"}


@pytest.mark.parametrize(("fault", "name"), FAULTS, ids=lambda value: value if type(value) is str else value.__name__)
def test_a_planted_fault_is_found_by_the_case_that_names_it(fault: type[faulty.Sound], name: str) -> None:
    """A kit that passes everything would be worse than none, for its user would trust it."""
    with pytest.raises((CaseFailed, ClewError)):
        NAMED[name].run(faulty.lab_of(fault))


@pytest.mark.parametrize("name", sorted({name for _, name in FAULTS}))
def test_the_same_case_passes_where_no_fault_is_planted(name: str) -> None:
    """Otherwise it is the wrapping that it finds, and not the fault."""
    NAMED[name].run(faulty.lab_of(faulty.Sound))


def test_a_lock_that_holds_in_one_process_only_is_found(tmp_path: Path) -> None:
    """It passes every test that its author runs in one process."""
    path = f"{tmp_path}/talk.db"
    code = f"from tests.testing.faulty_sessions import ThreadsOnly; store = ThreadsOnly({path!r})"
    lab = SessionStoreLab(lambda: faulty.ThreadsOnly(path), elsewhere=code)

    with pytest.raises(CaseFailed, match="another has it"):
        NAMED["another_process_holds_until_it_is_killed"].run(lab)


@pytest.mark.parametrize("case", SESSION_STORE_CASES, ids=str)
def test_a_strangers_store_passes(case: Case[SessionStoreLab], tmp_path: Path) -> None:
    """It is built by the protocols on something that is neither a file a session nor memory."""
    stranger_passes(case, tmp_path)


def test_a_file_of_25_lines_is_enough_for_a_strangers_store() -> None:
    """More would be a framework, and nobody would use it."""
    lines = (ROOT / "tests" / "testing" / "session_stranger.py").read_text("utf-8").splitlines()

    assert len(lines) <= 25


def test_every_case_is_in_the_list_once() -> None:
    """A case that is written and not listed is tried by nobody."""
    modules: list[Any] = [session_births, session_changes, session_lines, session_owners]
    written = [case for module in modules for case in cases_of(vars(module) | {"CASES": ()})]

    assert len(SESSION_STORE_CASES) == len(NAMED)
    assert {case.name for case in written} == set(NAMED)


def test_every_case_has_found_a_fault() -> None:
    """One that has never failed may be one that cannot fail, and a bad store would pass it."""
    assert set(NAMED) == {name for _, name in FAULTS} | OF_PROCESSES


def test_every_case_says_one_sentence() -> None:
    """It is all that the author of a failing store has to go by."""
    mute = [case.name for case in SESSION_STORE_CASES if not case.asserts.endswith(".") or "\n" in case.asserts]

    assert [] == mute
