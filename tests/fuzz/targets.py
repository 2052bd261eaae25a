"""What arbitrary bytes are given to, and what must hold whatever they are. A fuzzer calls these, and so do plain tests.

The bytes are read as orders to build a file (`tests.fuzz.orders`). Raising anything but AssertionError is a fault of
clew as well.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from clew.core.checkpoint import BadManifest, changes, manifest_as_json, probed, read_checkpoint, read_manifest
from clew.core.folding import fold
from clew.errors import ClewError, Corrupt, UsageError
from clew.runtime.deeds import check_command
from clew.stores.base import Command
from clew.stores.published import decode, encode
from tests.core.journals import naive_records, plain
from tests.core.journals import read as read_file
from tests.fuzz.conversations import conversation
from tests.fuzz.orders import Orders, built
from tests.histories import RUN, Scribe, completed, facts, returned, started

Target = Callable[[bytes], None]


@lru_cache(maxsize=1)
def sound() -> list[bytes]:
    """The lines of a whole journal."""
    scribe = Scribe().born()
    for number in (1, 2):
        scribe.say(*started(facts(number)))
        scribe.say(*returned(facts(number)))
    scribe.say(*completed())
    return scribe.data.splitlines(keepends=True)


def journal(data: bytes) -> None:
    """Two readers agree; what is read is a beginning of the file; a refusal is one, and repairing ends."""
    text = built(Orders(data), sound())
    try:
        found = read_file(text)
        records, end = found.records, found.at_byte
    except Corrupt as error:
        end = error.facts["byte"]
        found = None
        records = read_file(text[:end]).records
    assert repr([plain(record) for record in records]) == repr(naive_records(text))
    assert text[:end].count(b"\n") + (found is not None and found.verdict == "unterminated") == len(records)
    with suppress(Corrupt):
        fold(((record, 0) for record in records), RUN)
    if found is not None and found.verdict == "torn":
        again = read_file(text[:end])
        assert ("clean", records) == (again.verdict, again.records)


def _json(orders: Orders, depth: int = 0) -> Iterator[bytes]:
    """Something like JSON."""
    match orders.byte() % (8 if depth < 4 else 6):
        case 0:
            yield orders.some(12)
        case 1:
            yield b'"%b"' % orders.some(12)
        case 2:
            yield (b"null", b"true", b"NaN", b"1e999", b"-0", b"123456789012345678901234567890")[orders.number(6)]
        case 3:
            yield b'"\\ud800"'
        case 4 | 5:
            yield str(orders.number(1000)).encode()
        case 6:
            yield b"[" + b",".join(piece for _ in range(orders.number(4)) for piece in _json(orders, depth + 1)) + b"]"
        case _:
            yield b"{"
            for number in range(orders.number(4)):
                yield b"," * (number > 0) + b'"%b":' % (b"text", b"by", b"answer", orders.some(5))[orders.number(4)]
                yield from _json(orders, depth + 1)
            yield b"}"


_TYPES: Final = (b"pause", b"abort", b"approve", b"deny", b"steer", b"settle")
_MEMBERS: Final = (b"version", b"controlId", b"runId", b"type", b"by", b"reason", b"arguments")


def command(data: bytes) -> None:
    """A file in an inbox is a command that is understood, or refused; what is read writes itself again."""
    orders = Orders(data)
    given: dict[bytes, bytes] = dict(
        zip(_MEMBERS, (b"1", b'"c1"', b'"r1"', b'"pause"', b'"ann"', b'"why"', b"{}"), strict=True)
    )
    given[b"type"] = b'"%b"' % _TYPES[orders.number(len(_TYPES))]
    given[b"arguments"] = b"".join(_json(orders))
    while orders:
        name = _MEMBERS[orders.number(len(_MEMBERS))]
        given[name if orders.byte() % 4 else orders.some(8)] = b"".join(_json(orders))
    text = b"{" + b",".join(b'"%b":%b' % pair for pair in given.items()) + b"}" + orders.some(3)
    try:
        found = decode(text, Command)
    except ValueError:
        return
    assert decode(encode(found), Command) == found
    with suppress(UsageError):
        check_command(found)


_KINDS: Final = ("file", "folder", "link", "absent")
_PATHS: Final = ("a", "a/b", "b", "../c", "/d", "a//b", ".", "\udcff", "e\0", "\u00e4")


def _state(orders: Orders) -> dict[str, Any]:
    """How a path stands: mostly whole, sometimes with a member too many, too few or of another kind."""
    kind = _KINDS[orders.number(4)]
    whole: dict[str, Any] = {"path": _PATHS[orders.number(len(_PATHS))], "type": kind}
    if kind == "file":
        whole |= {"sha256": f"{orders.number(9):064x}", "sizeBytes": orders.number(99), "mode": 0o644}
    elif kind != "absent":
        whole |= {"mode": 0o755} if kind == "folder" else {"target": "a"}
    odd = orders.byte()
    if odd < 40:
        name = ("path", "type", "sha256", "sizeBytes", "mode", "target", "more")[odd % 7]
        whole[name] = (None, 1, "x", -1, [], True, 1 << 70)[orders.number(7)]
    elif odd < 60:
        whole.pop(list(whole)[odd % len(whole)])
    return whole


def manifest(data: bytes) -> None:
    """What a record says of a checkpoint is read whole or refused; what is read writes itself again."""
    orders = Orders(data)
    payload: dict[str, Any] = {
        "version": 1, "checkpointId": "k1", "stepId": "write-1", "toolCallId": "c1", "idempotencyKey": "r:write-1:c1",
        "attempt": 1, "tool": "write", "timestamp": "2026-11-29T14:00:00.000Z", "reversible": True,
        "paths": [_state(orders) for _ in range(orders.number(5))],
    }  # fmt: skip
    left = {**payload, "after": [_state(orders) for _ in range(orders.number(5))]}
    while orders:
        name = [*left, "expects", "manifest", "expectedResult", "notCovered"][orders.number(len(left) + 4)]
        value = (None, 1, "k1", [], {}, [_state(orders)], {"sha256": "0" * 64, "sizeBytes": 1, "count": 1})[
            orders.number(7)
        ]
        (payload if orders.byte() % 2 else left)[name] = value
    for second in (None, left):
        with suppress(BadManifest):
            found = read_checkpoint(payload, second)
            for known in (found.before, found.after):
                assert known is None or read_manifest(manifest_as_json(known)) == known
            if found.before is not None:
                assert changes(found.before, found.before) == []
                probed(found.before, found.after or {}, found.expects)


TARGETS: Final[dict[str, Target]] = {
    "journal": journal,
    "command": command,
    "manifest": manifest,
    "session": conversation,
}


def strike(name: str, data: bytes) -> Any:
    """Give bytes to a target; an error of clew that comes out unexpected is a fault too."""
    try:
        TARGETS[name](data)
    except ClewError as error:
        raise AssertionError(f"{name} let out {error!r}") from error
