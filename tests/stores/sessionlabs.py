"""Our session stores, plugged into the public kit."""

from pathlib import Path

from clew.stores.sessions.files import FileSessionStore
from clew.stores.sessions.memory import MemorySessionStore
from clew.testing import SessionStoreLab, failing_call


def memory_sessions() -> SessionStoreLab:
    """Our memory, plugged into the public kit as any store is."""
    memory = MemorySessionStore()
    return SessionStoreLab(
        lambda: memory,
        raw=memory.raw,
        implant=memory.implant,
        kept=memory.kept.get,
        fail=memory.failing,
        cannot={"elsewhere": "it lives in the memory of one process"},
    )


def file_sessions(folder: Path) -> SessionStoreLab:
    """Our files, plugged into the public kit as any store is."""
    root = folder / ".clew"
    sessions = root / "sessions"

    def implant(session_id: str, data: bytes | None) -> None:
        sessions.mkdir(parents=True, exist_ok=True)
        path = sessions / f"{session_id}.jsonl"
        if data is None:
            path.unlink()
        else:
            path.with_suffix(".new").write_bytes(data)
            path.with_suffix(".new").replace(path)

    def kept(name: str) -> bytes | None:
        return (sessions / name).read_bytes() if (sessions / name).exists() else None

    return SessionStoreLab(
        lambda: FileSessionStore(root),
        raw=lambda session_id: (sessions / f"{session_id}.jsonl").read_bytes(),
        implant=implant,
        kept=kept,
        fail=lambda step: failing_call("write") if step == "write" else failing_call("fsync", "fdatasync"),
        elsewhere=f"""
from pathlib import Path
from clew.stores.sessions.files import FileSessionStore
store = FileSessionStore(Path({str(root)!r}))""",
    )
