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
from clew.stores.base.kept import BlobStore, KeyIndex
from clew.stores.base.machine import UNMARKED, CommandEnd, Order, Processes
from clew.stores.base.sessions import Kept, SessionStore, SessionWriter
from clew.stores.base.workspace import FileBytes, Found, Listing, Workspace

__all__ = [
    "UNMARKED",
    "BlobStore",
    "Boundary",
    "Command",
    "CommandAnswer",
    "CommandEnd",
    "FileBytes",
    "Found",
    "Kept",
    "KeyIndex",
    "Listing",
    "Order",
    "Processes",
    "Proof",
    "Reading",
    "RunStore",
    "RunWriter",
    "SessionStore",
    "SessionWriter",
    "Tail",
    "TailRepaired",
    "Workspace",
]
