"""Lifecycle extensions as facts: the receipt of an invocation, its count over all legs, the JSON they are given.

What an extension is, and how its handlers are run, belongs to `runtime/extensions` and `runtime/lifecycle`.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

import msgspec

from clew.core.book import Book
from clew.core.calls import Illegal
from clew.core.events import Event

BEFORE_MODEL: Final = "before-model"
BEFORE_TOOL: Final = "before-tool"
AFTER_TOOL: Final = "after-tool"
RUN_FINISHED: Final = "run-finished"
MOMENTS: Final = (BEFORE_MODEL, BEFORE_TOOL, AFTER_TOOL, RUN_FINISHED)
STATUSES: Final = ("succeeded", "failed", "timed_out")

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_VERSION: Final = re.compile(r"[!-~]{1,64}")


def is_name(given: object) -> bool:
    """May an extension or a capability be called so: at most 128 ASCII letters, digits, `.`, `_` and `-`?"""
    return type(given) is str and _NAME.fullmatch(given) is not None


def is_version(given: object) -> bool:
    """May an extension have this version: 1 to 64 printable ASCII characters without a space?"""
    return type(given) is str and _VERSION.fullmatch(given) is not None


class Receipts(msgspec.Struct, frozen=True, gc=False):
    """Invocations of one extension at one moment that ended alike: how many, their time in all, the last error."""

    extension_id: str
    version: str
    moment: str
    status: str
    denied: bool
    count: int = 0
    duration_ms: int = 0
    error: str = ""

    def as_json(self) -> dict[str, Any]:
        """A receipt of contract §2.8 that stands for `count` of them; `durationMs` is their sum."""
        row: dict[str, Any] = {
            "extensionId": self.extension_id,
            "extensionVersion": self.version,
            "event": self.moment,
            "status": self.status,
            "count": self.count,
            "durationMs": self.duration_ms,
        }
        if self.error:
            row["error"] = self.error
        if self.denied:
            row["denied"] = True
        return row


def extension_lifecycle(
    extension_id: str, version: str, moment: str, status: str, duration_ms: int, *, error: str = "",
    denied: bool = False,
) -> Event:  # fmt: skip
    """The receipt of one invocation, as its event."""
    event: Event = {
        "type": "extension_lifecycle",
        "extensionId": extension_id,
        "extensionVersion": version,
        "lifecycle": moment,
        "status": status,
        "durationMs": duration_ms,
    }
    if error:
        event["error"] = error
    if denied:
        event["denied"] = True
    return event


def count_receipt(book: Book[Receipts], event: Event) -> None:
    """Enter one receipt: it is added to those that ended alike, so that a long run keeps no more than a short one.

    Raises:
        Illegal: it is none of contract §2.8, or says that a before-tool handler failed and yet did not deny (W50).
    """
    found = _read(event)
    name = f"{found.extension_id} {found.version} {found.moment} {found.status} {found.denied}"
    known = book.get(name) or found
    book.put(
        name,
        msgspec.structs.replace(
            known, count=known.count + 1, duration_ms=known.duration_ms + event["durationMs"], error=found.error
        ),
    )


def _read(event: Event) -> Receipts:
    name, version, moment = event.get("extensionId"), event.get("extensionVersion"), event.get("lifecycle")
    status, error, denied = event.get("status"), event.get("error", ""), event.get("denied", False)
    took = event.get("durationMs")
    if not is_name(name) or not is_version(version):
        raise Illegal(f"an extension's receipt names no extension: {name!r} {version!r}")
    if moment not in MOMENTS or status not in STATUSES or type(took) is not int or took < 0:
        raise Illegal(f"the receipt of extension {name!r} says neither when, how it ended nor how long it took")
    if type(error) is not str or (status == "succeeded") != (error == ""):
        raise Illegal(f"the receipt of extension {name!r} has an error exactly when it did not succeed")
    if type(denied) is not bool or (denied and moment != BEFORE_TOOL):
        raise Illegal(f"extension {name!r} denies at {moment!r}; only before-tool may deny")
    if moment == BEFORE_TOOL and status != "succeeded" and not denied:
        raise Illegal(f"extension {name!r} {status} before a tool and did not deny it")
    return Receipts(str(name), str(version), str(moment), str(status), denied, error=error)


def receipt_rows(book: Book[Receipts]) -> list[dict[str, Any]]:
    """What `pause`, `finish` and the snapshot say of the extensions, all legs."""
    return [receipts.as_json() for receipts in book.values()]


class Frozen(dict[str, Any]):
    """A JSON object that cannot be changed; `copy.deepcopy` gives one that can. Its arrays are tuples."""

    __slots__ = ()

    def _refuse(self, *_given: object, **_named: object) -> NoReturn:
        raise TypeError("what an extension is given cannot be changed; change a copy.deepcopy of it")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def freeze(value: Any) -> Any:
    """A JSON value as a copy that nobody can change, all the way down."""
    if isinstance(value, Mapping):
        return Frozen({name: freeze(member) for name, member in value.items()})
    if type(value) in (list, tuple):
        return tuple(freeze(item) for item in value)
    return value
