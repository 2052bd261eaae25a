"""Who this process is, and whether another one, as a journal names it, is provably gone. Age never counts."""

import os
import socket
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

OwnerState = Literal["alive", "stopped", "gone", "elsewhere"]
Answer = Literal["yes", "no", "cannot_tell"]

_PROC = Path("/proc")


class Gone(NamedTuple):
    """The answer to "is that process gone?" and what was seen."""

    answer: Answer
    fact: str


class _Seen(NamedTuple):
    """What the kernel says of one process id: its state and start, or that it does not exist, or nothing."""

    state: Literal["alive", "stopped", "zombie", "none", "hidden"]
    start_tick: int = 0


def identity() -> dict[str, Any]:
    """Who this process is, in the members that a leg has: enough to prove one day that it is gone.

    Raises:
        Storage: it cannot be read now (no descriptor left, no memory); what this system has not is empty or 0.

    Source:
        journal.md §1 "Leg"; DESIGN §4 "Lock".
    """
    return {"host": socket.gethostname(), **_fixed(os.getpid()), "user": _user()}


@lru_cache(maxsize=1)
def _fixed(pid: int) -> dict[str, Any]:
    """What stays as it is as long as this process lives; by its number, for a forked child is another one."""
    return {
        "machineId": _machine_id(),
        "bootId": _boot_id(),
        "pid": pid,
        "startTick": look(pid).start_tick,
        "pidNamespace": _pid_namespace(),
    }


def owner_state(owner: dict[str, Any], here: dict[str, Any]) -> OwnerState:
    """What a reader may say of the process of a leg, without any lock.

    `elsewhere` is every "cannot tell": another host, another PID namespace, a hidden process, a damaged leg.
    """
    if _not_here(owner, here):
        return "elsewhere"
    if owner["bootId"] != here["bootId"]:
        return "gone"
    if owner["pidNamespace"] != here["pidNamespace"]:
        return "elsewhere"
    seen = look(owner["pid"])
    if seen.state == "hidden":
        return "elsewhere"
    if seen.state in ("none", "zombie") or seen.start_tick != owner["startTick"]:
        return "gone"
    return "stopped" if seen.state == "stopped" else "alive"


def prove_gone(owner: dict[str, Any], here: dict[str, Any]) -> Gone:
    """Is the process of a leg provably gone? Asked only by who holds the kernel's lock on a local file system.

    Another boot, another PID namespace of this boot, no such process, or another start tick under its number: yes.
    Another PID namespace counts because the lock is already ours: its processes have no descriptor left.

    Source:
        DESIGN §4, table of "Lock"; reliability f, proof (4).
    """
    reason = _not_here(owner, here)
    if reason:
        return Gone("cannot_tell", reason)
    if owner["bootId"] != here["bootId"]:
        return Gone("yes", f"boot {owner['bootId']} is over, this is {here['bootId']}")
    if owner["pidNamespace"] != here["pidNamespace"]:
        return Gone("yes", f"PID namespace {owner['pidNamespace']} of this boot is not ours, {here['pidNamespace']}")
    pid, tick = owner["pid"], owner["startTick"]
    seen = look(pid)
    if seen.state == "hidden":
        return Gone("cannot_tell", f"process {pid} is hidden from this user")
    if seen.state == "none" or seen.start_tick != tick:
        return Gone("yes", f"no process {pid} with start tick {tick}")
    if seen.state == "zombie":
        return Gone("yes", f"process {pid} is a zombie")
    return Gone("no", f"process {pid} with start tick {tick} is {seen.state}")


def _not_here(owner: dict[str, Any], here: dict[str, Any]) -> str:
    """Why nothing can be told of this owner from here; empty when something can."""
    for member in ("host", "machineId", "bootId", "pidNamespace"):
        if not isinstance(owner.get(member), str):
            return f"the leg has no {member}"
    for member in ("pid", "startTick"):
        value = owner.get(member)
        if type(value) is not int or value <= 0:
            return f"the leg has no {member}"
    for member in ("host", "machineId"):
        if owner[member] != here[member]:
            return f"{member} {owner[member]!r} is not {here[member]!r}"
    for member in ("bootId", "pidNamespace"):
        # What one of the two could not be told differs from anything, which proves nothing.
        if bool(owner[member]) != bool(here[member]):
            return f"{member} is not known of {'this process' if owner[member] else 'the leg'}"
    # Without a machine id another boot could be another machine of the same name.
    if not owner["machineId"] and owner["bootId"] != here["bootId"]:
        return "the machine has no id, and the boot is another"
    return ""


if sys.platform == "win32":
    import ctypes
    import getpass
    import winreg
    from ctypes import wintypes

    _QUERY_LIMITED, _STILL_ACTIVE = 0x1000, 259
    _ACCESS_DENIED = 5

    def look(pid: int) -> _Seen:
        """What the system says of a process id; the start tick is its creation time in 100 ns."""
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.OpenProcess.restype = wintypes.HANDLE
        handle = kernel.OpenProcess(_QUERY_LIMITED, False, pid)
        if not handle:
            return _Seen("hidden" if ctypes.get_last_error() == _ACCESS_DENIED else "none")
        try:
            code, times = wintypes.DWORD(), [wintypes.FILETIME() for _ in range(4)]
            if not kernel.GetExitCodeProcess(wintypes.HANDLE(handle), ctypes.byref(code)):
                return _Seen("hidden")
            if not kernel.GetProcessTimes(wintypes.HANDLE(handle), *(ctypes.byref(time) for time in times)):
                return _Seen("hidden")
            created = times[0].dwHighDateTime << 32 | times[0].dwLowDateTime
            return _Seen("alive" if code.value == _STILL_ACTIVE else "zombie", created)
        finally:
            kernel.CloseHandle(wintypes.HANDLE(handle))

    def _machine_id() -> str:
        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"SOFTWARE\Microsoft\Cryptography") as key:
                return str(winreg.QueryValueEx(key, "MachineGuid")[0])
        except OSError:
            return ""

    def _boot_id() -> str:
        return ""

    def _pid_namespace() -> str:
        return ""

    def _user() -> str:
        return getpass.getuser()

else:
    import errno
    import pwd

    from clew.disk.failures import failure

    _PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO})

    def look(pid: int) -> _Seen:
        """What the kernel says of a process id, by procfs; one that procfs does not show is asked for by signal 0.

        Raises:
            Storage: this very process is asked for, and cannot open or read a file.
        """
        path = _PROC / str(pid) / "stat"
        try:
            text = path.read_text(errors="replace")
        except OSError as error:
            if pid == os.getpid():
                _require_lasting(error, path)
            return _Seen(_unshown(pid))
        return parse_stat(text)

    def parse_stat(text: str) -> _Seen:
        """State and start tick of a `stat` line. The name may hold spaces and brackets, so count after the last ')'.

        A zombie whose other threads still run has its descriptors: it lives.
        """
        fields = text.rpartition(")")[2].split()
        state, threads, start_tick = fields[0], int(fields[17]), int(fields[19])
        if state in "ZXx" and threads <= 1:
            return _Seen("zombie", start_tick)
        return _Seen("stopped" if state in "Tt" else "alive", start_tick)

    def _unshown(pid: int) -> Literal["none", "hidden"]:
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return "none"
        except PermissionError:
            return "hidden"
        return "hidden"

    def _machine_id() -> str:
        return _read(Path("/etc/machine-id")) or _read(Path("/var/lib/dbus/machine-id"))

    def _boot_id() -> str:
        return _read(_PROC / "sys/kernel/random/boot_id")

    def _pid_namespace() -> str:
        try:
            return str(os.stat(_PROC / "self/ns/pid").st_ino)
        except OSError as error:
            _require_lasting(error, _PROC / "self/ns/pid")
            return ""

    def _user() -> str:
        user_id = os.geteuid()
        try:
            return _name_of(user_id)
        except KeyError:
            return str(user_id)

    @lru_cache(maxsize=1)
    def _name_of(user_id: int) -> str:
        """Looked up once, for it is told to people and proves nothing; by number, for a process may change its user.

        `KeyError` where it has no name, which is asked anew: that may come of a directory that cannot be reached now.
        """
        return pwd.getpwuid(user_id).pw_name

    def _read(path: Path) -> str:
        try:
            return path.read_text(errors="replace").strip()
        except OSError as error:
            _require_lasting(error, path)
            return ""

    def _require_lasting(error: OSError, path: Path) -> None:
        """A leg that is opened without knowing who opens it could never be proven gone; so this is not shrugged off."""
        if error.errno in _PASSING:
            raise failure(error, path, "read") from error
