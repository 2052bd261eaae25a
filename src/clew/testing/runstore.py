"""The conformance kit of run stores: one plain list of cases. What a store is, `stores.base` says."""

from typing import Final

from clew.testing.cases import appends, births, endings, heads, holders, inbox, poison, readers, spoiled
from clew.testing.kit import Case
from clew.testing.storelab import RunStoreLab

RUN_STORE_CASES: Final[tuple[Case[RunStoreLab], ...]] = (
    *births.CASES,
    *appends.CASES,
    *endings.CASES,
    *spoiled.CASES,
    *heads.CASES,
    *holders.CASES,
    *readers.CASES,
    *poison.CASES,
    *inbox.CASES,
)
"""What every run store must show, ours and a stranger's: `for case in RUN_STORE_CASES: case.run(MyLab(...))`.

Each case wants a lab of its own, empty at first.

Source:
    DESIGN §3 "a contract is a kit" and §4; STYLE, habit 7.
"""
