"""What a prune may drop, and why the rest is kept: what journals refer to, who may still need it. Drops nothing."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from clew.core.answers import json_text
from clew.core.records import Record
from clew.core.times import parse_ms

DAY_MS: Final = 86_400_000
_PIECE: Final = re.compile(r"torn-\d+-[0-9a-f]{12}")
_DIGEST: Final = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")

Why = Literal["unreferenced", "retention", "quota"]
"""No journal refers to it; the runs that do ended long enough ago; and of these the oldest, for there is no room."""
KeptFor = Literal["may_go_on", "answer", "recent", "within_quota", "not_asked"]
"""A run that may go on refers to it; it is a long answer; its run ended a short while ago; there is room; no option
asks for contents."""


class Uses(msgspec.Struct):
    """What one journal refers to. Fed with its records in their order; lives for one look.

    Attributes:
        run_id: The run.
        contents: Digests of artifacts, of checkpoints, of their manifests, and of what restores put together.
        answers: Digests of long answers.
        held: Digests that nobody may drop: answers of calls with a business key, which other runs may be told; all
            that a journal names which clew did not begin.
        kept: Those of `contents` that were kept when they were recorded: a digest that a tool only expects, or that a
            restore only found, may be nobody's blob.
        manifests: Those of `contents` that are lists of further contents.
        ended_ms: When it ended (milliseconds since 1970); None while it may go on.
        parent: Whose child it is; empty for nobody's.
        pieces: Names of cut ends that its records name.
        restoring: A restore began, and nobody recorded its end.
    """

    run_id: str
    contents: set[str] = msgspec.field(default_factory=set)
    answers: set[str] = msgspec.field(default_factory=set)
    held: set[str] = msgspec.field(default_factory=set)
    kept: set[str] = msgspec.field(default_factory=set)
    manifests: set[str] = msgspec.field(default_factory=set)
    ended_ms: int | None = None
    parent: str = ""
    pieces: set[str] = msgspec.field(default_factory=set)
    restoring: bool = False
    _keyed: set[str] = msgspec.field(default_factory=set)
    _own: bool = True

    def see(self, record: Record) -> None:
        """One more record."""
        payload = record.payload
        if record.kind == "start":
            self._own = record.chain is not None and "leg" in payload
            parent = payload.get("parent")
            self.parent = str(parent.get("runId", "")) if type(parent) is dict else ""
        if not self._own:
            self.held.update(_digests(payload))
        elif record.kind == "checkpoint":
            self._checkpoint(payload)
        elif record.kind == "event":
            self._event(payload["event"])
        elif record.kind == "resume":
            self.pieces.update(_PIECE.findall(json_text(payload.get("tailRepaired"))))
        elif record.kind == "finish":
            self.ended_ms = parse_ms(record.timestamp)

    def _checkpoint(self, payload: Mapping[str, Any]) -> None:
        self.contents.update(_digests(payload))
        for name in ("paths", "manifest"):
            self.kept.update(_digests(payload.get(name)))
        unkept = payload.get("unkept", ())
        self.kept.update(_digests([left for left in payload.get("after", ()) if left["path"] not in unkept]))
        self.manifests.update(_digests(payload.get("manifest")))

    def _event(self, event: Mapping[str, Any]) -> None:
        kind = event["type"]
        if kind == "artifact_created" and "sha256" in event:
            self.contents.add(event["sha256"])
            self.kept.add(event["sha256"])
        elif kind == "tool_call" and "businessKey" in event:
            self._keyed.add(event["stepId"])
        elif kind == "step_output" and "blob" in event:
            (self.held if event["stepId"] in self._keyed else self.answers).add(event["blob"]["sha256"])
        elif kind == "restored":
            self.contents.update(_digests(event))
            self.restoring = event.get("state") == "started"

    def list(self, manifest: bytes) -> None:
        """What the content of one of its manifests names."""
        self.contents.update(_DIGEST.findall(manifest.decode("utf-8", "replace")))

    @property
    def over(self) -> bool:
        """Has it ended, with nothing left half put back?"""
        return self.ended_ms is not None and not self.restoring


def _digests(payload: Any) -> list[str]:
    """Every digest in what a record says, whatever its members are called."""
    return _DIGEST.findall(json_text(payload))


class Rule(msgspec.Struct, frozen=True):
    """What is asked for.

    Attributes:
        now_ms: The clock, milliseconds since 1970.
        keep_days: Contents of runs that ended in so many days are never dropped; None: no run is too young.
        quota_bytes: Of what is old enough, the oldest goes until so many bytes are left; None: with `keep_days` all
            of it goes, without it nothing.
        answers: Long answers of ended runs go as contents do.
    """

    now_ms: int
    keep_days: float | None = None
    quota_bytes: int | None = None
    answers: bool = False

    @property
    def asked(self) -> bool:
        """Is anything asked for beyond what no journal refers to?"""
        return self.keep_days is not None or self.quota_bytes is not None


class Drop(msgspec.Struct, frozen=True, rename="camel"):
    """One blob that goes: why, whose it was, and how many bytes lie on the disk for it."""

    sha256: str
    why: Why
    runs: tuple[str, ...]
    stored_bytes: int


class Plan(msgspec.Struct, frozen=True):
    """What goes, and of what stays how many blobs and bytes for which reason; the bytes of all before and after."""

    drops: tuple[Drop, ...]
    kept: dict[KeptFor, tuple[int, int]]
    before_bytes: int
    after_bytes: int


def over(uses: Iterable[Uses]) -> set[str]:
    """The runs that never go on, nor does one whose child they are."""
    known = {each.run_id: each for each in uses}

    def is_over(found: Uses, below: frozenset[str]) -> bool:
        above = known.get(found.parent)
        if above is None or above.run_id in below:
            return found.over
        return found.over and is_over(above, below | {found.run_id})

    return {run_id for run_id, found in known.items() if is_over(found, frozenset())}


def choose(stock: Mapping[str, int], uses: Sequence[Uses], rule: Rule) -> Plan:
    """Decide about every blob.

    Args:
        stock: Every blob that is there, with its bytes on the disk.
        uses: What every journal of the home refers to; one that is missing here would lose what it needs.
        rule: What is asked for.

    Returns:
        The blobs that go, in the order in which they are dropped: what nobody refers to, then the oldest contents.

    Source:
        DESIGN §7: "`clew prune` holds it alone; receipts are never dropped"; promise 2.
    """
    gone, users, locked = over(uses), defaultdict[str, list[Uses]](list), dict[str, KeptFor]()
    for each in uses:
        for digest in each.contents | each.answers | each.held:
            if digest in stock:
                users[digest].append(each)
                _lock(locked, digest, each, may_go_on=each.run_id not in gone, answers=rule.answers)
    unreferenced = [Drop(digest, "unreferenced", (), stock[digest]) for digest in sorted(stock) if digest not in users]
    ages = {digest: max(each.ended_ms or 0 for each in users[digest]) for digest in users if digest not in locked}
    return _by_rule(stock, unreferenced, ages, users, locked, rule)


def _lock(locked: dict[str, KeptFor], digest: str, user: Uses, *, may_go_on: bool, answers: bool) -> None:
    if may_go_on:
        locked[digest] = "may_go_on"
    elif digest in user.held or (digest in user.answers and not answers):
        locked.setdefault(digest, "answer")


def _by_rule(
    stock: Mapping[str, int], unreferenced: list[Drop], ages: dict[str, int], users: Mapping[str, list[Uses]],
    locked: Mapping[str, KeptFor], rule: Rule,
) -> Plan:  # fmt: skip
    before = sum(stock.values())
    left = before - sum(each.stored_bytes for each in unreferenced)
    young_ms = rule.now_ms - (rule.keep_days or 0) * DAY_MS
    drops, kept = unreferenced, defaultdict[KeptFor, list[int]](list)
    for digest, why in locked.items():
        kept[why].append(stock[digest])
    for digest in sorted(ages, key=lambda digest: (ages[digest], digest)):
        stays = _stays(ages[digest], young_ms, left, rule)
        if stays is not None:
            kept[stays].append(stock[digest])
            continue
        left -= stock[digest]
        runs = tuple(sorted({each.run_id for each in users[digest]}))
        drops.append(Drop(digest, "retention" if rule.quota_bytes is None else "quota", runs, stock[digest]))
    return Plan(tuple(drops), {why: (len(sizes), sum(sizes)) for why, sizes in kept.items()}, before, left)


def _stays(ended_ms: int, young_ms: float, left: int, rule: Rule) -> KeptFor | None:
    """Why this content stays; None when it goes."""
    if not rule.asked:
        return "not_asked"
    if rule.keep_days is not None and ended_ms > young_ms:
        return "recent"
    return "within_quota" if rule.quota_bytes is not None and left <= rule.quota_bytes else None
