"""For tests, ours and a stranger's: conformance kits, crash points, a set clock."""

from clew.testing.agents import Report, crash_points
from clew.testing.faults import failing_call
from clew.testing.kit import Case, CaseFailed, CaseSkipped, Outcome, check
from clew.testing.runstore import RUN_STORE_CASES
from clew.testing.sessionlab import SessionStoreLab
from clew.testing.sessionstore import SESSION_STORE_CASES
from clew.testing.storelab import RunStoreLab

__all__ = [
    "RUN_STORE_CASES",
    "SESSION_STORE_CASES",
    "Case",
    "CaseFailed",
    "CaseSkipped",
    "Outcome",
    "Report",
    "RunStoreLab",
    "SessionStoreLab",
    "check",
    "crash_points",
    "failing_call",
]
