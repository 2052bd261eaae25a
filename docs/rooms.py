"""Write `docs/architecture.md`: how the house is built, and each module with the first sentence of its docstring.

python docs/rooms.py
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
SOURCE = ROOT / "src" / "clew"

# Rooms from the ground up, each with what it holds. A room that is not named here does not exist.
ROOMS = {
    "": "the ground: errors that everything may raise, and the public face",
    "core": "the meaning, pure: values in, values out; no clock, no chance, no disk, no thread",
    "disk": "the machine: the only room that touches the operating system; only `stores` come in",
    "stores": "what is kept: small protocols, and their implementations in memory and in files",
    "views": "what eyes see, pure: the words that every face prints",
    "runtime": "the living run; it is given its stores, and only `home` names them",
    "certify": "the user's own agent put to death in real processes; the command enters it",
    "toolkit": "tools that are ready to use",
    "integrations": "one file for each outside framework, imported by whoever uses it",
    "loop": "plan, execute, verify, repair: above the runtime, which knows nothing of it",
    "testing": "for others' tests: kits that every store and every agent can be put to",
    "cli": "the command",
}

HEAD = """\
# How clew is built

<!-- Written by `python docs/rooms.py`. Do not edit. -->

```
  {faces}                faces: thin, blind to one another
   └──────────┴───────────┘
        certify      │                   agents put to death
           │         │
        runtime    views                 the living run │ what eyes see
           │         │
        stores       │                   what is kept
       ┌───┴────┐    │
     disk      core ─┘                   the machine │ the meaning
       └───┬────┘
         errors
```

An arrow never points upwards: the linter holds the floors (`make check`), and knows every room.

## Three shapes

* **Validate, append, then apply.** A record is judged on a fork of the run's state, by the same function that
  reads it back later; then it is written and synced; then the fork becomes the state.
  `core/compose.py`, `runtime/journal.py`.
* **The walk is written once.** One effect is a generator that yields what it needs and is sent the answer.
  Drivers do the deeds: for event loops, for plain code, and "die here".
  `core/effect.py`, `runtime/drivers.py`, `testing/crash.py`.
* **A contract is a kit.** What a store must do is a list of cases that every store is put to, ours and yours.
  `testing/runstore.py`.
"""

# What happens on the way of one call -> where.
WAY = {
    "`run.call(pay, …)`": "runtime/run.py",
    "arguments become JSON with a fingerprint": "runtime/admission.py core/jsonable.py core/canon.py",
    "a call that is recorded is found again": "runtime/claims.py",
    "may it start? limits, policy": "runtime/gate.py core/budget.py",
    "extensions of the home may say no": "runtime/lifecycle.py runtime/hearing.py",
    "the proposal and `started` are one append": "core/effect.py core/compose.py core/codec.py disk/append.py",
    "the tool runs": "runtime/drivers.py runtime/bodies.py",
    "its answer and `committed` are one append; or it is in doubt, and its probe is asked": "core/effect.py",
    "the door closes when nobody knows": "runtime/door.py",
    "another process reads what was written": "stores/scan.py core/folding.py",
    "and decides what may happen next": "core/resume.py runtime/recovery.py runtime/reopening.py",
}


def page() -> str:
    """The whole of `docs/architecture.md`."""
    present = {path.relative_to(SOURCE).parts[0] for path in SOURCE.rglob("*.py") if path.parent != SOURCE}
    missing = present ^ (set(ROOMS) - {""})
    if missing:
        raise SystemExit(f"rooms that are not described, or not there: {', '.join(sorted(missing))}")
    faces = [room for room in ROOMS if room not in ("", "core", "disk", "stores", "views", "runtime", "certify")]
    sections = (_section(room, meaning) for room, meaning in ROOMS.items())
    head = HEAD.format(faces="  ".join(sorted(faces)))
    return "\n".join([head, *_way(), "## The rooms, from the ground up", "", *sections])


def _way() -> Iterator[str]:
    yield from ("## One call, file by file", "", "| what happens | where |", "|---|---|")
    for happening, places in WAY.items():
        yield f"| {happening} | {', '.join(f'`{place}`' for place in places.split())} |"
    yield ""


def _section(room: str, meaning: str) -> str:
    lines = [f"### {room + '/' if room else 'clew'}: {meaning}", "", "| module | holds |", "|---|---|"]
    return "\n".join([*lines, *_rows(SOURCE / room), ""])


def _rows(folder: Path) -> Iterator[str]:
    files = sorted(folder.glob("*.py") if folder == SOURCE else folder.rglob("*.py"))
    for path in (path for path in files if path.name not in ("__init__.py", "__main__.py")):
        said = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        place = path.relative_to(SOURCE).as_posix()
        yield f"| [`{place}`](../src/clew/{place}) | {_first_line(said)} |"


def _first_line(said: str) -> str:
    return said.partition("\n")[0].replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
