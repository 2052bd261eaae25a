"""The acceptance table of faults: what must come out, which tests hold it, how much of it each command does.

`docs/assurance.md` is made of this. A row that another part of the project will fill has no tests yet and says so.
"""

from typing import Final, NamedTuple

_CRASH: Final = "tests/crash/test_"


class Row(NamedTuple):
    """One fault.

    Attributes:
        fault: What happens.
        outcome: What must come of it.
        tests: `file` or `file::function`, below the root of the project.
        test, crash, full: How much `make test`, `make crash` and `make crash-full` do.
        needs: What must be there, or it is skipped visibly.
    """

    fault: str
    outcome: str
    tests: tuple[str, ...] = ()
    test: str = ""
    crash: str = ""
    full: str = ""
    needs: str = ""


_FAILING: Final = "every 83rd of about 1,700, every 301st of about 3,800 beside journals"
_RECOVERED: Final = "recovered, nothing acknowledged lost, each effect done once"
ROWS: Final[dict[int, Row]] = {
    1: Row("SIGKILL before each system call", _RECOVERED, (f"{_CRASH}calls.py",),
           "every 17th of about 440, every 53rd of about 800 beside journals", "all of about 1,240", "the same",
           "strace"),
    2: Row("EIO, ENOSPC, EINTR, EMFILE at each call, once", "typed error, writer dead, recovered",
           (f"{_CRASH}calls.py",), _FAILING, "every third, every ninth", "all", "strace"),
    3: Row("the same, failing from there on", "typed error, no partial success, recovered",
           (f"{_CRASH}calls.py",), _FAILING, "every third, every ninth", "all", "strace"),
    4: Row("every legal disk state, pieces of 512 bytes and 4 KiB", "recovered twice alike, 0 refused, one append more",
           (f"{_CRASH}states.py",), "3,000 distinct states, 8,000 of files and sessions", "about 100,000, 35,000",
           "1,000,000, 300,000", "strace"),
    5: Row("the journal ends at any byte", "recovered, exactly the records before the cut", (f"{_CRASH}sweeps.py",),
           "the ends of all lines and every 211th byte", "every third byte of about 87,000", "every byte"),
    6: Row("a flipped bit anywhere before the last line", "refused, file byte for byte as it was",
           (f"{_CRASH}sweeps.py", "tests/core/test_tail.py"),
           "every 131st byte", "every second byte", "every byte, each of its bits"),
    7: Row("a zeroed, repeated, deleted or swapped sector", "refused, file byte for byte as it was",
           (f"{_CRASH}sweeps.py::test_a_damaged_sector_is_refused",), "every sector, 4 ways", "the same", "the same"),
    8: Row("power cut at block level on a real file system", "recovered"),
    9: Row("a real failed sync, after which a sync succeeds", "the writer is dead, the next opener reads the device",
           (f"{_CRASH}dying.py",
            "tests/stores/test_jsonl.py::test_after_a_real_failed_sync_the_device_is_believed_and_not_the_cache",
            "tests/disk/test_append.py::test_a_failed_sync_is_not_an_acknowledgement"),
           "1", "20 places", "120 places", "root, a loop device"),
    10: Row("the disk is full at each append and each publish, then has room", "the writer is dead, no damage inside",
            ("tests/contract/test_hostile_disk.py",
             "tests/disk/test_append.py::test_a_disk_that_fills_up_ends_the_writer_and_space_does_not_revive_it"),
            "24 places", "every append and every publish of 4 deeds", "the same", "root, tmpfs"),
    11: Row("a short write of every length", "the writer is dead, recovered",
            ("tests/stores/test_jsonl.py::test_a_write_that_is_short_at_any_length_is_repaired",
             f"{_CRASH}sweeps.py::test_a_journal_that_ends_at_any_byte_is_recovered"),
            "every third length, really", "every third byte of a journal", "every byte"),
    12: Row("no memory at each allocation, once and from then on", "writer dead or append whole, each effect once",
            (f"{_CRASH}inside.py", "tests/contract/test_hostile_threads.py"),
            "every 17th of an append, 15 of a call, 8 of a checkpoint, 7 of a migration; none for a thread",
            "all of an append, every 9th of a call, every 41st and 31st", "all", "_testcapi"),
    13: Row("Ctrl-C at each bytecode where it can come, of an append, a call, a checkpoint, a migration",
            "writer dead or append whole, each effect once",
            (f"{_CRASH}inside.py", "src/clew/testing/cases/poison.py"),
            "every 23rd of an append, every 600th of a call, every third at its edges, 10 of each of the others",
            "all 1,434 of an append, every 29th of 24,580, every 61st of 26,286, every 97th of 39,303", "all"),
    14: Row("killed during recovery, at each call, 10 kinds of torn ends", "the third start recovers",
            (f"{_CRASH}calls.py",), "10 kinds, 2 each", "every second call", "every call", "strace"),
    15: Row("killed between an effect and its record", "unknown, blocked, never repeated; a person's word goes on",
            (f"{_CRASH}effects.py", "tests/journeys/test_kills.py"), "5 of 24 points", "24 points, 5 times",
            "24 points, 20 times", "strace"),
    16: Row("the same event, receipt or answer twice", "applied once, the same reply",
            (f"{_CRASH}twice.py", "tests/core/test_life.py", "tests/core/test_operation.py",
             "tests/testing/test_runstore.py"), "200 generated runs", "3,000 in memory, 600 in files", "20,000, 4,000"),
    17: Row("two to eight writers race", "one at a time, consecutive, nothing overwritten",
            (f"{_CRASH}owners.py", "tests/cases/test_k7_locks.py"), "3 writers, 24 rounds", "2,000 rounds",
            "10,000 rounds"),
    18: Row("the holder is stopped, then goes on", "never taken over, and goes on",
            ("tests/stores/test_jsonl.py::test_a_stopped_process_keeps_its_run",
             "tests/disk/test_lock.py::test_a_stopped_holder_still_holds",
             "tests/contract/test_hostile_owners.py::test_a_lock_that_is_held_is_never_taken", f"{_CRASH}stopped.py"),
            "3, for a moment", "20, for 60 s", "40, for 60 s"),
    19: Row("the holder is killed, its forked child lives", "the child holds nothing and writes nothing",
            ("tests/disk/test_append.py::test_a_child_that_outlives_its_parent_holds_nothing",
             "tests/disk/test_append.py::test_a_forked_child_is_no_writer_and_leaves_the_lock"), "2", "2", "2"),
    20: Row("the journal is deleted, replaced, cut, grown or linked while open", "the writer stops at its next start",
            (f"{_CRASH}owners.py::test_a_journal_that_is_taken_away_stops_its_writer_at_the_next_start",),
            "5 changes behind each of 20 appends", "the same", "the same"),
    21: Row("number used again, other boot, other PID namespace, unreadable identity", "as the lock table says",
            ("tests/disk/test_process.py", "tests/contract/test_hostile_owners.py"), "all", "all", "all"),
    22: Row("takeover without proof, with a stale nonce, twice", "refused, refused, one succeeds",
            ("tests/runtime/test_unlocking.py", "tests/runtime/test_recovery.py"), "all", "all", "all"),
    23: Row("read-only mount, file or folder; no rights", "read without a trace, write refused by type",
            ("tests/contract/test_hostile_disk.py",
             "tests/stores/test_jsonl.py::test_who_may_only_read_can_read_and_is_told_why_not_more"),
            "all", "all", "all", "root for the mount"),
    24: Row("tampering T1 to T9", "found; T9 only against a verdict that was kept elsewhere",
            ("tests/core/test_known.py", "tests/cli/test_looking.py"), "9 of 9, twice, by `make judges`",
            "by `make judges`", "by `make judges`"),
    25: Row("a migration of a session ended at each call", "source untouched, backup whole, a rerun succeeds",
            ("tests/contract/test_migration_faults.py", f"{_CRASH}calls.py", f"{_CRASH}states.py"),
            "every 10th of 152 strikes, 500 legal disks", "all 152 and every ninth of about 240, 1,300 legal disks",
            "all, 10,000 legal disks", "strace"),
    26: Row("a restore ended at each call", "old or new, never mixed; can be done again",
            ("tests/stores/test_swap.py", "tests/journeys/test_restores.py", f"{_CRASH}calls.py", f"{_CRASH}states.py"),
            "every 10th operation, of the engine and of the command, 1,700 legal disks",
            "each operation, each system call, 4,600 legal disks", "the same, 50,000 legal disks", "strace"),
    28: Row("arbitrary bytes as journal, session, manifest, command", "records or a typed refusal; two readers agree",
            ("tests/fuzz/test_corpus.py", f"{_CRASH}inputs.py", "tests/core/test_tail.py::test_a_naive_reader_agrees"),
            "the corpus, and 1,500 of each kind", "1,000,000", "10,000,000"),
    30: Row("planted bugs", "each is caught by the test that claims it", (f"{_CRASH}mutants.py",), "2", "all", "all"),
    31: Row("branch coverage of journal, lock, receipts, checkpoint, migration",
            "100 %, exclusions listed with reasons",
            ("tests/crash/ground.toml",), "core, by `make cover`",
            "with it 43 modules of what lies below, by `make cover-ground`", "the same"),
}  # fmt: skip
