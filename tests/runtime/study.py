"""A workspace in a folder of its own, runs in memory beside it: where calls change files and processes die."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import clew
from clew.core.checkpoint import Checkpoint
from clew.runtime.checkpoint import checkpoint_at
from clew.stores.base import RunStore
from clew.stores.keys import MemoryKeyIndex
from clew.testing.crash import CrashPoint, crashing
from tests.runtime.scene import Scene, agent_of, tool_of


class Study(Scene):
    """A scene whose tools write real files; `starts` are the bodies that began, by what they were to write."""

    def __init__(self, folder: Path, **kept: Any) -> None:
        super().__init__(**kept)
        self.folder = folder
        self.keys = MemoryKeyIndex()
        self.starts: list[str] = []
        self.promised: list[bool] = []

    def home(self, point: CrashPoint | None = None, *, store: RunStore | None = None) -> clew.Home:
        inner = store or (self.memory if point is None else crashing(self.memory, point))
        place = self.folder / ".clew"
        parts: dict[str, Any] = {"store": inner, "blobs": self.blobs, "clock": self.clock, "keys": self.keys}
        return clew.Home(place, takeover="proven", **parts)

    def file(self, name: str = "note") -> Path:
        return self.folder / name

    def text(self, name: str = "note") -> str | None:
        return self.file(name).read_text() if self.file(name).exists() else None

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """Those of opened attempts, as another process reads them."""
        state = self.state
        kept = [known for known in state.checkpoints.values() if known.started]
        return [checkpoint_at(self.memory, state, known.position, known.after) for known in kept]

    @property
    def kinds(self) -> list[str]:
        """What is said of calls, in order: receipts by status, checkpoints as `kept` and `left`."""
        said = []
        for line in self.lines:
            if line["kind"] == "checkpoint":
                said.append("left" if "after" in line["payload"] else "kept")
            elif line["kind"] == "event":
                event = line["payload"]["event"]
                said.append(event.get("status", event["type"]))
        return said


def announced(before: Any, path: str, text: str) -> clew.Expected:
    """What `put` says that it will leave, and return."""
    return clew.Expected({path: text}, f"wrote {text}")


def writing(
    study: Study, way: str = "plain", *, then: Callable[[], Any] = lambda: None,
    first: Callable[[], Any] = lambda: None, **declared: Any,
) -> clew.Tool:  # fmt: skip
    """`put(path, text)`: something happens, the file is written, something happens again."""

    def put(call: clew.Call, path: str, text: str) -> str:
        study.starts.append(text)
        study.promised.append(study.kinds[-2:] == ["kept", "started"])
        first()
        (study.folder / path).write_text(text)
        then()
        return f"wrote {text}"

    said = {"effect": "workspace", "paths": ("path",), "expects": announced}
    return tool_of(way, put, **{**said, **declared})


def putting(study: Study, way: str, put: clew.Tool, *texts: str, path: str = "note") -> clew.Agent:
    """An agent that writes these texts, one after the other, and returns what it was told."""

    def script(run: Any) -> Any:
        told: list[Any] = []
        for text in texts or ("new",):
            told = [*told, (yield run.call(put, path=path, text=text))]
        return told

    return agent_of(way, script, put)
