"""Artifacts as a journal tells them: what they may be called, what is recorded, what stands for what."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.artifacts import (
    PREVIEW_CHARS,
    ROWS_AT_CLOSE,
    SecretFound,
    artifact_rows,
    blocked,
    check_artifact_name,
    check_media_type,
    is_artifact_name,
    preview_of,
    rows_at_close,
    stored,
    watched,
)
from clew.core.compose import Move
from clew.core.outcome import Outcome, closing_payload
from clew.core.redact import Redactor
from clew.core.resume import Facts
from clew.core.snapshot import outline
from clew.errors import Corrupt, UsageError
from tests.histories import Scribe, paused, refold

D1, D2 = "a" * 64, "b" * 64
REPORT = stored("report.txt", D1, 5, "text/plain", "hello")
SECRET = "correct-horse-battery"


def run(*said: dict[str, Any]) -> Scribe:
    """A run in which this was said, each in an append of its own."""
    scribe = Scribe().born()
    for event in said:
        scribe.say(event)
    return scribe


def refused(scribe: Scribe, event: dict[str, Any]) -> str:
    """Why this event may not follow."""
    with pytest.raises(Corrupt) as caught:
        scribe.say(event)
    return caught.value.message


# Names.


@pytest.mark.parametrize(
    "name", ["report.pdf", "a", "Bericht für März.txt", "报告.md", "x" * 255, "report (2).txt", ".env.example", "a:b"]
)
def test_a_name_for_people_is_a_name(name: str) -> None:
    """Nothing is ever made at a path of this name, so it may be what a person calls it."""
    assert name == check_artifact_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "", " ", ".", "..", "a/b", "/etc/passwd", "..\\x", "a\nb", "a\0b", " a", "a ", "x" * 256, "ü" * 128, "\ud800",
        None, 7, b"report",
    ],
)  # fmt: skip
def test_a_path_or_what_cannot_be_shown_is_no_name(name: Any) -> None:
    """Who saves an artifact under its name must not be led anywhere."""
    with pytest.raises(UsageError) as caught:
        check_artifact_name(name)

    assert "invalid_artifact_name" == caught.value.code


@pytest.mark.parametrize("media_type", ["text/plain", "application/vnd.api+json", "text/plain; charset=utf-8"])
def test_a_media_type_is_taken_as_it_is(media_type: str) -> None:
    """What it is, the agent says."""
    assert media_type == check_media_type(media_type)


@pytest.mark.parametrize("media_type", ["", "text", "text/", "TEXT/PLAIN", "text/plain\n", "a b/c", None, 7])
def test_what_is_no_media_type_is_refused(media_type: Any) -> None:
    """A list that shows it must be able to trust it."""
    with pytest.raises(UsageError) as caught:
        check_media_type(media_type)

    assert "invalid_media_type" == caught.value.code


# What is recorded, and in which order.


def test_an_artifact_is_what_its_record_says() -> None:
    """The snapshot has the members of contract §2.8, and ours."""
    state = refold(run(REPORT).data)

    assert [
        {
            "artifactId": "report.txt", "name": "report.txt", "status": "stored", "sizeBytes": 5, "sha256": D1,
            "mediaType": "text/plain", "createdAt": state.last_time, "retention": "run", "redaction": "none",
            "preview": "hello",
        }
    ] == outline(state, Facts(0), integrity={})["artifacts"]  # fmt: skip


def test_a_blocked_one_says_nothing_of_its_content() -> None:
    """The digest of a short secret tells the secret."""
    row = artifact_rows(run(blocked("key.txt", 40, "text/plain")).state)[0]

    assert ({"sha256", "preview"} & row.keys(), row["status"], row["redaction"]) == (set(), "blocked", "blocked-secret")


def test_artifacts_are_counted_with_the_bytes_that_are_kept() -> None:
    """#167: the sums of contract §2.8, over all legs."""
    scribe = run(REPORT, blocked("key.txt", 40, "text/plain"), stored("b", D2, 30, "text/plain", None))

    assert {"stored": 2, "blocked": 1, "totalBytes": 35} == refold(scribe.data).metrics.recorded(
        0, clock_stepped=False
    )["artifacts"]


@pytest.mark.parametrize(
    "again", [REPORT, stored("report.txt", D2, 5, "text/plain", None), blocked("report.txt", 5, "text/plain")]
)
def test_a_name_that_is_given_stays_with_its_content(again: dict[str, Any]) -> None:
    """Promise 1: not the same once more, not another content, not a block."""
    assert "is stored already" in refused(run(REPORT), again)


def test_what_was_blocked_may_come_again_without_the_secret() -> None:
    """An agent that is mended must be able to give what it meant to."""
    state = run(blocked("report.txt", 9, "text/plain"), REPORT).state

    assert ["stored"] == [row["status"] for row in artifact_rows(state)]


def test_what_was_blocked_is_not_blocked_twice() -> None:
    """A resume that comes to the same place adds nothing."""
    block = blocked("report.txt", 9, "text/plain")

    assert "is blocked already" in refused(run(block), block)


def test_an_artifact_needs_a_running_operation() -> None:
    """Behind a pause there is nobody who could make one."""
    scribe = Scribe().born()
    scribe.say(Move("PAUSE", "pause_requested"))

    assert "while the operation is paused" in refused(scribe, REPORT)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("artifactId", "a/b"), ("artifactId", None), ("status", "lost"), ("status", "blocked"), ("sizeBytes", -1),
        ("sizeBytes", True), ("sizeBytes", "5"), ("redaction", "blocked-secret"), ("sha256", "a" * 63),
        ("sha256", None), ("mediaType", "text"), ("mediaType", None), ("tool", None), ("preview", 5),
        ("preview", "x" * (PREVIEW_CHARS + 1)),
    ],
)  # fmt: skip
def test_a_record_that_contradicts_itself_is_refused(member: str, value: Any) -> None:
    """Promise 4: nothing is defaulted on read."""
    assert "record 4" in refused(run(), {**REPORT, member: value})


@pytest.mark.parametrize(("member", "value"), [("sha256", D1), ("preview", "se")])
def test_a_blocked_one_that_tells_something_is_refused(member: str, value: str) -> None:
    """What was kept out must not stand in the journal by another way."""
    block = blocked("key.txt", 40, "text/plain")

    assert "something of it stands" in refused(run(), {**block, member: value})


def test_a_pause_carries_the_artifacts_without_their_beginnings() -> None:
    """Contract §2.2: `artifacts` of a pause; what is in the records already is not written again."""
    scribe = run(REPORT)
    scribe.say(*paused())
    rows = (scribe.state.pause or {})["artifacts"]

    assert [("report.txt", D1, False)] == [(row["artifactId"], row["sha256"], "preview" in row) for row in rows]


def test_a_run_with_very_many_artifacts_can_still_close() -> None:
    """A list that outgrows the largest append would keep a run from ever pausing; the metrics count them all."""
    state = run(REPORT).state
    one = state.artifacts["report.txt"]
    state.artifacts = {f"{number}{'x' * 250}": one for number in range(ROWS_AT_CLOSE + 5)}

    payload = closing_payload(state, Outcome("paused", "pause_requested"))

    assert (ROWS_AT_CLOSE, ROWS_AT_CLOSE + 5) == (len(payload["artifacts"]), len(artifact_rows(state)))
    assert rows_at_close(state) == payload["artifacts"]


# Content.


def through(data: bytes, size: int, redactor: Redactor) -> bytes | None:
    """What comes out of the watch, in pieces of this size; None when a secret was found."""
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    try:
        return b"".join(watched(pieces, redactor))
    except SecretFound:
        return None


@given(st.binary(max_size=300), st.integers(1, 40))
def test_pieces_pass_as_they_are(data: bytes, size: int) -> None:
    """Who watches changes nothing."""
    assert data == through(data, size, Redactor([SECRET]))


@given(st.binary(max_size=60), st.binary(max_size=60), st.integers(1, 50))
def test_a_configured_secret_is_found_wherever_pieces_part(before: bytes, after: bytes, size: int) -> None:
    """In any bytes, binary ones too."""
    data = before + SECRET.encode() + after

    assert through(data, size, Redactor([SECRET])) is None


def test_a_known_shape_is_found_in_text_alone() -> None:
    """In bytes that are no text, what looks like a key is chance."""
    key = b"token ghp_" + b"A" * 36

    assert (None, b"\0" + key) == (through(key, 7, Redactor()), through(b"\0" + key, 100, Redactor()))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", ""), (b"hello\n", "hello\n"), ("ü".encode() * 900, "ü" * PREVIEW_CHARS), (b"\xff\xfe", None),
        (b"a\0b", None), ("😀".encode() * 250, "😀" * PREVIEW_CHARS), ("😀".encode()[:3], ""),
    ],
)  # fmt: skip
def test_the_beginning_of_a_text_is_shown(data: bytes, expected: str | None) -> None:
    """A character that is cut off at its end is none; what is no text has no beginning."""
    assert expected == preview_of(data)


@given(st.text(max_size=300))
def test_no_text_is_a_name_that_leads_elsewhere(text: str) -> None:
    """Whatever passes has no part of a path in it, and can be shown on a line."""
    assert not is_artifact_name(text) or ("/" not in text and "\\" not in text and text.isprintable())
