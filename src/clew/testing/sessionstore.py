"""The conformance kit of session stores: one plain list of cases. What such a store is, `stores.base` says."""

from typing import Final

from clew.testing.cases import session_births, session_changes, session_lines, session_owners
from clew.testing.kit import Case
from clew.testing.sessionlab import SessionStoreLab

SESSION_STORE_CASES: Final[tuple[Case[SessionStoreLab], ...]] = (
    *session_births.CASES,
    *session_lines.CASES,
    *session_owners.CASES,
    *session_changes.CASES,
)
"""What every session store must show: `for case in SESSION_STORE_CASES: case.run(MyLab(...))`.

Each case wants a lab of its own, empty at first.

Source:
    DESIGN §3 "a contract is a kit" and §8; reference/sessions.md §7 to §9.
"""
