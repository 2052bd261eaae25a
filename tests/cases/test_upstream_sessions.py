"""Odd sessions as upstream reads and migrates them: the same answer, or a difference that a page explains."""

import base64
import json
import re
from pathlib import Path
from typing import Any

from clew.core.session.lines import exact
from clew.core.session.migrating import check_migrated, migrate
from clew.core.session.reading import SessionReader, read_session
from clew.core.session.values import View
from clew.core.session.viewing import Entries
from clew.errors import ClewError
from tests.cases.ward import case
from tests.core.session.scribe import reading, seen

PAGE = Path(__file__).parents[2] / "docs" / "session-differences.md"


def upstream() -> Any:
    return json.loads(case("pi-upstream-parse-and-migration-cases.json"))


def listed() -> dict[str, str]:
    """Each case of the page, and what it says that clew does."""
    rows = re.findall(r"^\| `([\w-]+)` \| [^|]* \| ([^|]*) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    return dict(rows)


def parsed(data: bytes) -> Any:
    """Header and entries as clew reads them, or the reason why it does not."""
    try:
        state = read_session(data)
    except ClewError as error:
        return f"refused: `{error.facts.get('reason', error.code)}`"
    entries = Entries(state, reading(data))
    return [state.header.value, *(entries.entry(node) for node in range(state.entries))]


def what_it_shows(shown: View) -> Any:
    return [(each.entry_id, each.message) for each in shown.messages], shown.level, shown.model, shown.labels


def migrated(data: bytes, expected: bytes) -> Any:
    """Whether the file shows what upstream's migration of it shows, before and after our own; else what is said."""
    state, before = read_session(data), seen(data)
    out = b"".join(migrate(state, reading(data), sha256="0" * 64, backup_file="b"))
    check_migrated(state, before, seen(out))
    said = ", ".join(f"`{each.code}`" for each in before.warnings)
    return what_it_shows(before) == what_it_shows(seen(expected)), f"warns: {said}" if said else ""


def differences() -> dict[str, str]:
    """Each case in which clew's answer is another one, and what it is."""
    found: dict[str, str] = {}
    for each in upstream()["parseCases"]:
        ours = parsed(each["input"].encode("utf-8", "surrogatepass"))
        if ours != each["expected"]:
            found[each["name"]] = str(ours)
    for each in upstream()["migrationCases"]:
        same, said = migrated(each["input"].encode(), each["expected"].encode())
        if not same or said:
            found[each["name"]] = said or "keeps it"
    odd = upstream()["invalidUTF8"]
    ours = parsed(base64.b64decode(odd["inputBase64"]))
    if ours != odd["expected"]:
        found["invalid-utf8"] = str(ours)
    if not upstream()["lazyPersistence"]["preAssistantExists"]:
        found["lazy-persistence"] = "the file is there when the session is open"
    return found


def test_every_difference_is_on_the_page() -> None:
    """A difference that nobody wrote down is one that nobody decided."""
    assert listed() == differences()


def test_the_integer_that_upstream_rounds_is_kept() -> None:
    """`v2-json-stringify-normalization`: 2^53 + 1 is an order number of somebody."""
    each = next(each for each in upstream()["migrationCases"] if each["name"] == "v2-json-stringify-normalization")
    data = each["input"].encode()
    out = b"".join(migrate(read_session(data), reading(data), sha256="0" * 64, backup_file="b"))

    assert b"[ -0, 1e+2, 1.2300, 9007199254740993 ]" in out
    assert 9007199254740993 == exact(out.splitlines()[1])["message"]["numbers"][3]


def test_a_session_exists_before_anybody_answers() -> None:
    """`lazy-persistence`: the header alone is a session."""
    reader = SessionReader()
    reader.feed(b'{"kind":"header","version":4,"id":"s1","createdAt":5,"cwd":"/w"}\n')

    assert 0 == reader.finish().entries
