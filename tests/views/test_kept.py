"""Artifacts and prunes in words."""

from typing import Any, get_args

import pytest

from clew.core.pruning import KeptFor, Why
from clew.views.kept import _STAYED, _WENT, artifact_lines, pruned_lines
from tests.views.samples import WHEN

AT = "2026-11-29T13:54:02.000Z"


def row(name: str = "a.csv", **changed: Any) -> dict[str, Any]:
    return {
        "name": name, "status": "stored", "sizeBytes": 2048, "mediaType": "text/csv", "createdAt": AT, **changed
    }  # fmt: skip


def report(**changed: Any) -> dict[str, Any]:
    return {
        "dryRun": False, "freedBytes": 2048, "wouldFreeBytes": 4096, "went": {}, "stayed": {}, "quotaMet": None,
        "blobsBytes": {"before": 4096, "after": 2048}, "notRemoved": [], "atWork": [], **changed,
    }  # fmt: skip


def test_artifacts_are_a_table() -> None:
    """Name, size, kind, time, and how a text begins."""
    rows = [row(preview="1;2\n3;4"), row("long name.bin", sizeBytes=7, mediaType="application/x")]

    assert [
        "a.csv          2.0 KiB  text/csv       13:54:02  1;2\\n3;4",
        "long name.bin  7 bytes  application/x  13:54:02",
    ] == artifact_lines(rows, WHEN)


def test_a_blocked_artifact_is_said_not_to_be_kept() -> None:
    """Nobody should look for its content."""
    assert artifact_lines([row(status="blocked")], WHEN)[0].endswith("NOT KEPT: there was a secret in it")


def test_a_run_without_artifacts_says_so() -> None:
    """An empty answer would leave the reader to guess."""
    assert ["it kept no artifacts"] == artifact_lines([], WHEN)


def test_no_name_and_no_beginning_is_obeyed_by_a_terminal() -> None:
    """Both may be a model's words."""
    text = "\n".join(artifact_lines([row("a\x1b[0mb", preview="\x1b]0;x\x07")], WHEN))

    assert "\x1b" not in text
    assert "\x07" not in text


def test_a_prune_tells_what_went_and_what_stayed_and_why() -> None:
    """Each reason on a line of its own."""
    told = pruned_lines(
        report(went={"quota": {"count": 1, "bytes": 2048}}, stayed={"recent": {"count": 2, "bytes": 5}})
    )

    assert [
        "freed 2.0 KiB",
        "  went  1 content, 2.0 KiB: the oldest contents, beyond the quota",
        "  stays  2 contents, 5 bytes: their runs ended a short while ago",
        "  blobs  4.0 KiB before, 2.0 KiB after",
    ] == told


def test_a_dry_run_speaks_of_what_would_be() -> None:
    """And of who would keep it out."""
    told = pruned_lines(report(dryRun=True, went={"temp": {"count": 1, "bytes": 9}}, atWork=[{"run": "r1", "pid": 7}]))

    assert ("would free 4.0 KiB", "  would go  1 file, 9 bytes: temp files of processes that are gone") == (
        told[0], told[1],
    )  # fmt: skip
    assert "  in use by r1: a prune would be refused now" == told[-1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"quotaMet": False}, "quota is not met"), ({"notRemoved": ["a" * 64]}, "could not be taken out")],
)
def test_what_was_asked_and_not_reached_is_said(changes: dict[str, Any], said: str) -> None:
    """A prune that freed less than was wanted must not read like one that did."""
    assert any(said in line for line in pruned_lines(report(**changes)))


def test_every_reason_has_its_words() -> None:
    """A new one would be left out of the report."""
    assert ({*get_args(Why), "temp", "torn"}, set(get_args(KeptFor))) == (set(_WENT), set(_STAYED))
