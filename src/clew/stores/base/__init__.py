"""Small protocols that every store of a kind keeps, and the values they speak in. No store is here."""

from clew.stores.base.journals import (
    Boundary,
    Command,
    CommandAnswer,
    Proof,
    Reading,
    RunStore,
    RunWriter,
    Tail,
    TailRepaired,
)
from clew.stores.base.kept import BlobPack, BlobStore, Kept, KeyIndex
from clew.stores.base.machine import UNMARKED, CommandEnd, Order, Processes
from clew.stores.base.sessions import SessionStore, SessionWriter, SetAside
from clew.stores.base.upkeep import Leftover, Pruning, Upkeep
from clew.stores.base.workspace import (
    COVER_LIMITS,
    CoverLimits,
    FileBytes,
    Found,
    Listing,
    PutBack,
    PutBackEnd,
    PutBackOutcome,
    Workspace,
)

__all__ = [
    "COVER_LIMITS",
    "UNMARKED",
    "BlobPack",
    "BlobStore",
    "Boundary",
    "Command",
    "CommandAnswer",
    "CommandEnd",
    "CoverLimits",
    "FileBytes",
    "Found",
    "Kept",
    "KeyIndex",
    "Leftover",
    "Listing",
    "Order",
    "Processes",
    "Proof",
    "Pruning",
    "PutBack",
    "PutBackEnd",
    "PutBackOutcome",
    "Reading",
    "RunStore",
    "RunWriter",
    "SessionStore",
    "SessionWriter",
    "SetAside",
    "Tail",
    "TailRepaired",
    "Upkeep",
    "Workspace",
]
