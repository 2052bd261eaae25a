"""What a home keeps beside its journals, in words: artifacts of a run, and what a prune came to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from clew.views.plain import When, count_text, one_line, size_text

_NAME_CHARS: Final = 60
_PREVIEW_CHARS: Final = 60
_WENT: Final = {
    "unreferenced": "no journal refers to it",
    "retention": "contents of runs that ended long enough ago",
    "quota": "the oldest contents, beyond the quota",
    "temp": "temp files of processes that are gone",
    "torn": "cut ends of journals that have ended",
}
_STAYED: Final = {
    "may_go_on": "a run that may go on needs it",
    "answer": "long answers; --answers names them too",
    "recent": "their runs ended a short while ago",
    "within_quota": "there is room for it",
    "not_asked": "contents of ended runs; --keep-days or --quota lets them go",
}


def artifact_lines(rows: Sequence[Mapping[str, Any]], when: When) -> list[str]:
    """Artifacts as a table: name, size, kind, when it was kept, how it begins."""
    if not rows:
        return ["it kept no artifacts"]
    names = [one_line(row["name"], _NAME_CHARS) for row in rows]
    sizes = [size_text(row["sizeBytes"]) for row in rows]
    wide = max(map(len, names)), max(map(len, sizes)), max(len(row["mediaType"]) for row in rows)
    return [
        f"{name:<{wide[0]}}  {size:>{wide[1]}}  {row['mediaType']:<{wide[2]}}  {_kept(row, when)}".rstrip()
        for name, size, row in zip(names, sizes, rows, strict=True)
    ]


def _kept(row: Mapping[str, Any], when: When) -> str:
    at = when.second(row["createdAt"])
    if row["status"] == "blocked":
        return f"{at}  NOT KEPT: there was a secret in it"
    begins = one_line(row.get("preview", "").strip(), _PREVIEW_CHARS)
    return f"{at}  {begins}"


def pruned_lines(report: Mapping[str, Any]) -> list[str]:
    """What went and what stayed, by reason; and whether the quota is met."""
    freed = report["wouldFreeBytes"] if report["dryRun"] else report["freedBytes"]
    lines = [f"{'would free' if report['dryRun'] else 'freed'} {size_text(freed)}"]
    lines += _by_reason("would go" if report["dryRun"] else "went", report["went"], _WENT)
    lines += _by_reason("stays", report["stayed"], _STAYED)
    blobs = report["blobsBytes"]
    lines.append(f"  blobs  {size_text(blobs['before'])} before, {size_text(blobs['after'])} after")
    if report["quotaMet"] is False:
        lines.append("  the quota is not met: all that is left is needed, or too young")
    if report["notRemoved"]:
        stuck = count_text(len(report["notRemoved"]), "blob")
        lines.append(f"  {stuck} could not be taken out of a damaged pack: {report['notRemoved'][0]}")
    lines += [f"  in use by {one_line(each['run'])}: a prune would be refused now" for each in report["atWork"]]
    return lines


def _by_reason(deed: str, counts: Mapping[str, Mapping[str, int]], words: Mapping[str, str]) -> Iterable[str]:
    for why in words:
        if why in counts:
            count, size = counts[why]["count"], counts[why]["bytes"]
            what = "file" if why in ("temp", "torn") else "content"
            yield f"  {deed}  {count_text(count, what)}, {size_text(size)}: {words[why]}"
