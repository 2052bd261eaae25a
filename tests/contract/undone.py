"""The situations of `docs/recovery.md` about files: what an agent changed is to be taken back."""

from pathlib import Path
from typing import Final

from tests.contract.hostile import RUN
from tests.contract.situations import Situation, situation
from tests.runtime.test_restoring import Dying, Struck

EDITOR: Final = """
import clew
from clew.toolkit import write_file


@clew.agent(tools=[write_file])
def edit(run, text):
    run.call(write_file, path="note", content=text)
    return "written"
"""
OLD: Final = "one\ntwo\nthree\nfour\n"
NEW: Final = "one\n2\nthree\nfour\n"


def edited(found: Situation) -> Situation:
    """A run that changed a file."""
    (found.place.folder / "editor.py").write_text(EDITOR, "utf-8")
    note(found).write_text(OLD, "utf-8")
    found.look("run", "editor.py:edit", NEW, "--run-id", RUN)
    return found


def note(found: Situation) -> Path:
    return Path(found.place.folder, "note")


@situation("an agent changed files that you want back")
def _(found: Situation) -> Situation:
    edited(found).look("diff", RUN)
    return found


@situation("a file was changed since")
def _(found: Situation) -> Situation:
    note(edited(found)).write_text(NEW.replace("four", "mine"), "utf-8")
    found.look("restore", RUN, "k1", "--by", "ann")
    return found


def cut_off(found: Situation) -> Situation:
    """A restore that dies while it reads what it is to put back."""
    home = type(found.home)(found.place.home, blobs=Dying(found.place.home))
    try:
        home.restore(RUN, "k1", by="ann")
    except Struck:
        found.see()
    return found


@situation("a restore was cut off")
def _(found: Situation) -> Situation:
    edited(found)
    return cut_off(found)


@situation("a restore of a paused run was cut off")
def _(found: Situation) -> Situation:
    note(found).write_text(OLD, "utf-8")
    found.run("note:new", "bug")
    return cut_off(found)
