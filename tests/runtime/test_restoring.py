"""Files that a run's calls changed are put back: real files, real journals, one path at a time."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.compose import Close, Move
from clew.core.outcome import Outcome
from clew.errors import ClewError, Held, NotFound, Refused, UsageError
from clew.runtime.listed import row_of
from clew.runtime.living import running
from clew.runtime.recovery import end_leg
from clew.stores.blobs import FileBlobStore
from tests.runtime.keeper import RUN, WHO, Keeper, outcomes, standing

TEXT = b"one\ntwo\nthree\nfour\nfive\n"


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    (tmp_path / "a").write_bytes(TEXT)
    return Keeper(tmp_path)


def write(keeper: Keeper, path: str, data: bytes) -> None:
    (keeper.folder / path).write_bytes(data)


def journal_of(keeper: Keeper) -> bytes:
    return (keeper.folder / ".clew" / "runs" / f"{RUN}.jsonl").read_bytes()


def refused(keeper: Keeper, *words: str, **how: Any) -> ClewError:
    """The error of a restore that is none; the folder and the journal are as before."""
    before = standing(keeper.folder), journal_of(keeper)
    with pytest.raises(ClewError) as error:
        keeper.report(*words, **how)
    assert before == (standing(keeper.folder), journal_of(keeper))
    return error.value


# Put back.


def change(folder: Path) -> None:
    """All that a call may do to a path."""
    (folder / "text").write_bytes(b"other")
    (folder / "new").write_bytes(b"made")
    (folder / "gone").unlink()
    (folder / "mode").chmod(0o755)
    (folder / "link").unlink()
    (folder / "link").symlink_to("new")
    shutil.rmtree(folder / "tree")
    (folder / "kind").unlink()
    (folder / "kind").mkdir(mode=0o750)
    (folder / "kind" / "in").write_bytes(b"deep")
    (folder / "old").rename(folder / "moved")


CHANGED = ("text", "new", "gone", "mode", "link", "tree", "tree/leaf", "tree/deep", "kind", "kind/in", "old", "moved")


def scene(folder: Path) -> None:
    """How it stood before."""
    (folder / "text").write_bytes(b"text")
    (folder / "gone").write_bytes(bytes(range(256)))
    (folder / "mode").write_bytes(b"#!/bin/sh\n")
    (folder / "mode").chmod(0o600)
    (folder / "link").symlink_to("text")
    (folder / "tree" / "deep").mkdir(parents=True, mode=0o700)
    (folder / "tree" / "leaf").write_bytes(b"")
    (folder / "kind").write_bytes(b"file")
    (folder / "old").write_bytes(b"renamed")


def test_everything_that_a_call_may_do_to_a_path_is_taken_back(keeper: Keeper) -> None:
    """#145 to #147, #150: content, absence, mode, link, folder, kind and name, each as it was."""
    scene(keeper.folder)
    before = standing(keeper.folder)
    name = keeper.call(CHANGED, lambda: change(keeper.folder))
    keeper.end()
    found = keeper.restore(name)

    assert (before, {"restored"}) == (standing(keeper.folder), set(found.values()))


def test_what_lies_beside_the_checkpoint_is_not_looked_at(keeper: Keeper) -> None:
    """C53, C54: nothing is cleaned up, whatever the call made or read beside its paths."""
    name = keeper.call(["a"], keeper.writing("a", "out.bin", data=b"mine"))
    keeper.end()
    keeper.restore(name)

    assert (TEXT, b"mine") == ((keeper.folder / "a").read_bytes(), (keeper.folder / "out.bin").read_bytes())


def test_each_path_is_judged_by_itself(keeper: Keeper) -> None:
    """#151, C56: one that somebody changed since stays and is named, with its code; the other goes back."""
    name = keeper.call(["a", "b"], keeper.writing("a", "b"))
    keeper.end()
    write(keeper, "b", b"mine")
    report = keeper.report(name)

    assert [
        {"path": "a", "outcome": "restored"},
        {"path": "b", "outcome": "conflict", "why": "somebody changed it since", "code": "checkpoint_conflict"},
    ] == report["paths"]
    assert (TEXT, b"mine") == ((keeper.folder / "a").read_bytes(), (keeper.folder / "b").read_bytes())


def test_a_file_that_stands_as_before_is_not_written(keeper: Keeper) -> None:
    """C65: nobody builds again what did not change; its times and its very file stay."""
    write(keeper, "b", b"same")
    name = keeper.call(["a", "b"], lambda: write(keeper, "a", b"call"))
    keeper.end()
    before = os.stat(keeper.folder / "b")
    found = keeper.restore(name)
    after = os.stat(keeper.folder / "b")

    assert {"a": "restored", "b": "unchanged"} == found
    assert (before.st_mtime_ns, before.st_ctime_ns, before.st_ino) == (
        after.st_mtime_ns,
        after.st_ctime_ns,
        after.st_ino,
    )


def test_only_the_named_paths_are_touched(keeper: Keeper) -> None:
    """A folder stands for what lies in it."""
    (keeper.folder / "d").mkdir()
    name = keeper.call(["a", "d/f"], keeper.writing("a", "d/f"))
    keeper.end()

    assert ({"d/f": "restored"}, b"call") == (keeper.restore(name, "d"), (keeper.folder / "a").read_bytes())


def test_a_call_that_nobody_heard_of_is_unknown(keeper: Keeper) -> None:
    """#155: nobody can tell its bytes from the user's, so they stay."""
    name = keeper.edit("a", b"half", dies=True)
    keeper.end("dead")
    found = keeper.restore(name)

    assert ({"a": "unknown"}, b"half") == (found, (keeper.folder / "a").read_bytes())


def test_a_call_that_said_beforehand_how_it_ends_is_put_back(keeper: Keeper) -> None:
    """What it announced stands there: it was the call."""
    write(keeper, "a", b"call")
    expects = keeper.home.workspace.stand(["a"])
    write(keeper, "a", TEXT)
    name = keeper.edit("a", b"call", dies=True, expects=expects)
    keeper.end("dead")

    assert ({"a": "restored"}, TEXT) == (keeper.restore(name), (keeper.folder / "a").read_bytes())


# Several checkpoints.


def test_a_later_checkpoint_of_the_run_is_named(keeper: Keeper) -> None:
    """It is to be taken back first, or with it."""
    first, last = keeper.edit("a", b"1"), keeper.edit("a", b"2")
    keeper.end()
    (told,) = keeper.report(first)["paths"]

    assert ("conflict", last, b"2") == (told["outcome"], told["by"], (keeper.folder / "a").read_bytes())


def test_one_after_the_other_goes_back_to_the_beginning(keeper: Keeper) -> None:
    """The last one first."""
    first, last = keeper.edit("a", b"1"), keeper.edit("a", b"2")
    keeper.end()
    keeper.restore(last)
    keeper.restore(first)

    assert (keeper.folder / "a").read_bytes() == TEXT


def test_with_what_came_later_goes_back_at_once(keeper: Keeper) -> None:
    """Also what only later calls changed; its record names how far it went."""
    first = keeper.edit("a", b"1")
    keeper.edit("b", b"new")
    keeper.edit("a", b"2")
    keeper.end()
    report = keeper.report(first, later=True)

    assert ({"a": "restored", "b": "restored"}, TEXT, False, "k3") == (
        outcomes(report),
        (keeper.folder / "a").read_bytes(),
        (keeper.folder / "b").exists(),
        keeper.restored[-1]["through"],
    )


# Merges.


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_text_is_merged_where_both_changes_are_apart(keeper: Keeper, dry_run: bool) -> None:
    """The call's line goes, the user's stays; a dry run only says so."""
    name = keeper.edit("a", TEXT.replace(b"two", b"2"))
    keeper.end()
    mine = TEXT.replace(b"two", b"2").replace(b"five", b"mine")
    write(keeper, "a", mine)
    found = keeper.restore(name, merge=True, dry_run=dry_run)

    assert ({"a": "merged"}, mine if dry_run else TEXT.replace(b"five", b"mine")) == (
        found,
        (keeper.folder / "a").read_bytes(),
    )


def test_a_mode_is_merged_too(keeper: Keeper) -> None:
    """The user's mode stays, the call's content goes."""
    name = keeper.edit("a", b"call")
    keeper.end()
    (keeper.folder / "a").chmod(0o600)
    found = keeper.restore(name, merge=True)

    assert ({"a": "merged"}, TEXT, 0o600) == (
        found,
        (keeper.folder / "a").read_bytes(),
        (keeper.folder / "a").stat().st_mode & 0o777,
    )


@pytest.mark.parametrize("mine", [TEXT.replace(b"two", b"mine"), b"\0" + TEXT], ids=["meets", "binary"])
def test_what_cannot_be_merged_stays(keeper: Keeper, mine: bytes) -> None:
    """C59: no mark of a conflict is ever written into a file of the user's."""
    name = keeper.edit("a", TEXT.replace(b"two", b"2"))
    keeper.end()
    write(keeper, "a", mine)
    (told,) = keeper.report(name, merge=True)["paths"]

    assert ("conflict", "somebody changed it since; no clean merge", mine) == (
        told["outcome"],
        told["why"],
        (keeper.folder / "a").read_bytes(),
    )


def test_what_is_too_large_is_not_merged(keeper: Keeper) -> None:
    """It would take longer than anybody waits."""
    name = keeper.edit("a", TEXT.replace(b"two", b"2"))
    keeper.end()
    write(keeper, "a", b"x" * ((4 << 20) + 1))

    assert keeper.restore(name, merge=True) == {"a": "conflict"}


# What is in the way.


def spoil(blobs: Path) -> None:
    """One byte of a kept content is not what it was."""
    for file in blobs.rglob("*"):
        if file.is_file():
            file.chmod(0o600)
            file.write_bytes(file.read_bytes().replace(b"two", b"twx"))


@pytest.mark.parametrize("harm", [shutil.rmtree, spoil])
def test_a_content_that_cannot_be_had_is_named(keeper: Keeper, harm: Callable[[Path], None]) -> None:
    """#157: that path alone is a conflict, with the blob's name; what needs no content goes back."""
    name = keeper.call(["a", "b"], keeper.writing("a", "b"))
    keeper.end()
    harm(keeper.folder / ".clew" / "blobs")
    kept, made = keeper.report(name)["paths"]

    assert ("conflict", True, "restored") == (
        kept["outcome"],
        "its content cannot be had: " in kept["why"],
        made["outcome"],
    )
    assert not (keeper.folder / "b").exists()


def test_a_folder_that_the_user_put_work_into_stays(keeper: Keeper) -> None:
    """The call's own file in it goes, the user's stays, and so does the folder."""
    folder = keeper.folder / "d"

    def made() -> None:
        folder.mkdir()
        (folder / "f").write_bytes(b"call")

    name = keeper.call(["d", "d/f"], made)
    keeper.end()
    (folder / "mine").write_bytes(b"mine")
    found = keeper.restore(name)

    assert ({"d": "conflict", "d/f": "restored"}, [b"mine"]) == (
        found,
        [path.read_bytes() for path in folder.iterdir()],
    )


def test_a_path_that_cannot_be_looked_at_is_a_conflict(keeper: Keeper) -> None:
    """A pipe in its place: the others go on."""
    name = keeper.call(["a", "b"], keeper.writing("a", "b"))
    keeper.end()
    (keeper.folder / "a").unlink()
    os.mkfifo(keeper.folder / "a")

    assert keeper.restore(name) == {"a": "conflict", "b": "restored"}


# Records.


@pytest.mark.parametrize("how", ["completed", "paused", "dead"])
def test_what_is_about_to_be_done_is_recorded_and_what_became_of_it(keeper: Keeper, how: str) -> None:
    """W28, DESIGN §4: in a leg of its own, also behind the end of a run; the operation does not move."""
    name = keeper.call(["a", "b"], keeper.writing("a", "b"))
    keeper.end(how)
    write(keeper, "b", b"mine")
    before = keeper.home.reader.see(RUN).state
    keeper.report(name)
    after = keeper.home.reader.see(RUN).state
    started, ended = keeper.restored

    assert (before.state, len(before.legs) + 1) == (after.state, len(after.legs))
    assert ("control", "leg_ended", None) == (after.legs[-1].purpose, after.legs[-1].closed_by, after.restores.begun)
    assert [("started", "ann", ["a"]), ("ended", "ann", ["a", "b"])] == [
        (each["state"], each["by"], [path["path"] for path in each["paths"]]) for each in (started, ended)
    ]


def test_where_nothing_is_to_be_done_nothing_is_recorded(keeper: Keeper) -> None:
    """The journal tells of deeds."""
    name = keeper.edit("a", b"call")
    keeper.end()
    keeper.restore(name)
    before = journal_of(keeper)
    report = keeper.report(name)

    assert ({"a": "unchanged"}, None, before) == (outcomes(report), report["restoreId"], journal_of(keeper))


def test_a_dry_run_changes_nothing(keeper: Keeper) -> None:
    """It says what would become of each path, and no byte moves."""
    name = keeper.edit("a", b"call")
    keeper.end()
    before = standing(keeper.folder), journal_of(keeper)
    report = keeper.report(name, dry_run=True)

    assert ({"a": "restored"}, True) == (outcomes(report), report["dryRun"])
    assert before == (standing(keeper.folder), journal_of(keeper))


def test_why_a_run_waits_is_told_behind_a_restore(keeper: Keeper) -> None:
    """Who has put a file back at night looks next for what went wrong."""
    name = keeper.edit("a", b"call")
    keeper.begin().append(raised())
    end_leg(keeper.begin())
    keeper.restore(name)
    found = keeper.home.result(RUN)

    assert ({"a bug"}, "agent_error", 22) == (
        {found.snapshot["outcome"]["error"]["message"], keeper.home.reader.row(RUN)["message"]},
        found.reason, found.exit_code,
    )  # fmt: skip


def test_why_a_run_waits_is_told_behind_a_restore_that_was_cut_off(keeper: Keeper) -> None:
    """The files may be half put back, and the run had a fault of its own before that."""
    name = keeper.edit("a", b"call")
    keeper.begin().append(raised())
    end_leg(keeper.begin())
    cut_off(keeper, name, 0)
    row = keeper.home.reader.row(RUN)

    assert ("paused", "agent_error", "a bug", name) == (
        row["shown"], row["reason"], row["message"], row["restoring"]["checkpointId"],
    )  # fmt: skip


def test_a_list_believes_the_head_of_a_run_whose_restore_was_cut_off(keeper: Keeper) -> None:
    """A long journal is not read for a list: without its head the run would be listed as it stood at its beginning."""
    name = keeper.edit("a", b"call")
    keeper.begin().append(raised())
    end_leg(keeper.begin())
    cut_off(keeper, name, 0)
    keeper.home.steer(RUN, "wait for me", by="ann")
    head = keeper.home.reader.store.head(RUN)

    assert head is not None
    assert (head.row, "restore-1") == (row_of(head), head.row["restoring"]["restoreId"])


def raised() -> list[Any]:
    """The agent raised, and the run waits until that is mended."""
    outcome = Outcome("paused", "agent_error", {"code": "agent_error", "message": "a bug"})
    return [Move("PAUSE", "agent_error"), Close("pause", outcome)]


def test_a_run_goes_on_behind_a_restore(keeper: Keeper) -> None:
    """It is a person's act beside the run, not its end."""
    name = keeper.edit("a", b"call")
    keeper.end("paused")
    keeper.restore(name)
    row = keeper.home.reader.row(RUN)

    assert ("paused", "paused") == (row["state"], row["shown"])


# Refusals.


def test_a_living_run_is_left_alone(keeper: Keeper) -> None:
    """The files are its own while it works; who holds it is named."""
    name = keeper.edit("a", b"call")
    with pytest.raises(Held) as error:
        keeper.report(name)

    assert ("run_state_locked", b"call") == (error.value.code, (keeper.folder / "a").read_bytes())


def test_a_run_whose_owner_died_wants_an_operator(keeper: Keeper) -> None:
    """As with every other act on it."""
    name = keeper.edit("a", b"call")
    keeper.begin().close()
    plain = clew.Home(keeper.folder / ".clew")
    with pytest.raises(Held) as error:
        plain.restore(RUN, name, by="ann")

    assert error.value.code in ("takeover_refused", "owner_not_proven")


@pytest.mark.parametrize(
    ("words", "family", "code"),
    [
        (("k9",), NotFound, "checkpoint_not_found"),
        (("k 1",), UsageError, "invalid_checkpoint_id"),
        (("k1", "b"), UsageError, "path_not_recorded"),
        (("k2",), Refused, "checkpoint_not_reversible"),
    ],
)
def test_what_is_no_restore_is_refused(
    keeper: Keeper, words: tuple[str, ...], family: type[ClewError], code: str
) -> None:
    """#148, #157: before anything is touched or recorded."""
    keeper.edit("a", b"call")
    keeper.edit("b", b"call", reversible=False)
    keeper.end()
    error = refused(keeper, *words)

    assert (family, code) == (type(error), code)


@pytest.mark.parametrize("who", [{"by": " "}, {"reason": ""}])
def test_a_restore_names_who_and_why(keeper: Keeper, who: dict[str, str]) -> None:
    """Its record is read by others."""
    name = keeper.edit("a", b"call")
    keeper.end()

    assert refused(keeper, name, **who).code == "review_incomplete"


# Cut off.


class Struck(BaseException):
    """The process ends here; nobody may catch it."""


class Dying(FileBlobStore):
    """Blobs of a process that ends when the n-th content is read for being put back."""

    left = 0
    looking = False

    def has(self, sha256: str) -> bool:
        self.looking = True
        try:
            return super().has(sha256)
        finally:
            self.looking = False

    def pieces(self, sha256: str) -> Any:
        self.left -= not self.looking
        if self.left < 0:
            raise Struck
        return super().pieces(sha256)


def cut_off(keeper: Keeper, name: str, after: int, **how: Any) -> None:
    """A restore that ends amid the work, with its end unrecorded."""
    blobs = Dying(keeper.folder / ".clew")
    blobs.left = after
    home = clew.Home(keeper.folder / ".clew", takeover="proven", blobs=blobs)
    with pytest.raises(Struck):
        home.restore(RUN, name, **{**WHO, **how})


def three(keeper: Keeper) -> str:
    """A call that changed three files."""
    for path in "bc":
        write(keeper, path, b"old " + path.encode())
    name = keeper.call("abc", keeper.writing(*"abc"))
    keeper.end()
    return name


@pytest.mark.parametrize("after", range(3))
def test_a_restore_that_was_cut_off_is_gone_on_with(keeper: Keeper, after: int) -> None:
    """The same again: what is done is seen, what is not is done, and the end of both is told."""
    name = three(keeper)
    cut_off(keeper, name, after)
    begun = keeper.home.reader.see(RUN).state.restores.begun
    found = keeper.restore(name)

    assert [TEXT, b"old b", b"old c"] == [(keeper.folder / path).read_bytes() for path in "abc"]
    assert (True, {"restored": 3 - after, "unchanged": after}) == (
        begun is not None,
        {word: [*found.values()].count(word) for word in ("restored", "unchanged")},
    )
    assert ["started", "started", "ended"] == [each["state"] for each in keeper.restored]
    assert keeper.restored[1]["goesOn"] == "restore-1"


def test_what_the_user_did_after_the_death_stays(keeper: Keeper) -> None:
    """Also to a path that was put back before it."""
    name = three(keeper)
    cut_off(keeper, name, 1)
    write(keeper, "a", b"mine")
    write(keeper, "c", b"mine")
    found = keeper.restore(name)

    assert ({"a": "conflict", "b": "restored", "c": "conflict"}, [b"mine", b"old b", b"mine"]) == (
        found,
        [(keeper.folder / path).read_bytes() for path in "abc"],
    )


def test_going_on_takes_up_what_was_in_hand_whatever_is_named(keeper: Keeper) -> None:
    """Else it would stay half done for ever."""
    name = three(keeper)
    cut_off(keeper, name, 1)

    assert keeper.restore(name, "a") == {"a": "unchanged", "b": "restored", "c": "restored"}


def test_a_merge_that_was_cut_off_is_gone_on_with(keeper: Keeper) -> None:
    """Its content was kept before it began, so nobody has to ask for the merge again."""
    name = keeper.edit("a", TEXT.replace(b"two", b"2"))
    keeper.end()
    write(keeper, "a", TEXT.replace(b"two", b"2").replace(b"five", b"mine"))
    cut_off(keeper, name, 2, merge=True)
    found = keeper.restore(name)

    assert ({"a": "merged"}, TEXT.replace(b"five", b"mine")) == (found, (keeper.folder / "a").read_bytes())


def test_another_one_waits_until_it_is_gone_on_with(keeper: Keeper) -> None:
    """What it may have left halfway would be taken for somebody's work."""
    name = three(keeper)
    cut_off(keeper, name, 1)
    error = refused(keeper, name, later=True)

    assert ("restore_unfinished", f"Go on with it first: `clew restore {RUN} {name}`.") == (error.code, error.next)


def test_one_with_what_came_later_says_so_when_it_waits(keeper: Keeper) -> None:
    """The command that is printed goes on with the very same."""
    name = three(keeper)
    cut_off(keeper, name, 1, later=True)

    assert f"`clew restore {RUN} {name} --later`" in refused(keeper, name).next


def test_the_run_goes_on_when_what_was_cut_off_is_ended(keeper: Keeper) -> None:
    """Half a tree is neither what the agent left nor what a person chose."""
    name = keeper.call("a", keeper.writing("a"))
    keeper.end("paused")
    cut_off(keeper, name, 0)
    agent = clew.Agent(lambda run, prompt: "done", name="editor", tools=[])
    codes = [refusal(lambda: keeper.home.resume_sync(RUN, agent, signals=False))]
    codes += [refusal(lambda: keeper.home.plan(RUN, agent))]
    keeper.restore(name)
    codes += [refusal(lambda: keeper.home.plan(RUN, agent))]

    assert ["restore_unfinished", "restore_unfinished", "resume_config_mismatch"] == codes


def refusal(deed: Callable[[], Any]) -> str:
    """The code of what refuses it."""
    with pytest.raises(Refused) as error:
        deed()
    return str(error.value.code)


def test_nothing_is_put_back_while_the_call_may_still_write(keeper: Keeper) -> None:
    """Its body was left behind when its time was up: what is put back now, it would write over."""
    name = keeper.edit("a", b"half", dies=True)
    keeper.end("dead")
    with running(f"{RUN}:edit-1:c1", 1):
        error = refused(keeper, name)
    found = keeper.restore(name)

    assert ("process_alive", {"a": "unknown"}) == (error.code, found)


def test_a_process_that_a_call_left_behind_on_purpose_is_no_hindrance(keeper: Keeper) -> None:
    """It was over when it was looked at; a server that it started may serve on."""
    name = keeper.edit("a", b"call")
    keeper.end()
    with running(f"{RUN}:edit-1:c1", 1):
        found = keeper.restore(name)

    assert {"a": "restored"} == found


def test_a_restore_of_nothing_left_ends_what_was_cut_off(keeper: Keeper) -> None:
    """Its last path was done; only its end was missing."""
    name = three(keeper)
    cut_off(keeper, name, 2)
    write(keeper, "c", b"old c")
    found = keeper.restore(name)

    assert (["unchanged"] * 3, None) == ([*found.values()], keeper.home.reader.see(RUN).state.restores.begun)
