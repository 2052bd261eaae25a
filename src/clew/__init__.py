"""clew: runs of agents with a journal, a plan how they may go on, and a refusal to guess. Every public name."""

from clew.core.approvals import Approve, Reject
from clew.core.budget import RunBudget
from clew.core.evaluation import Check
from clew.core.metrics import RunMetrics
from clew.core.operation import DurableOperation
from clew.core.policy import Ask, Policy, Rule
from clew.core.receipts import EffectReceipt
from clew.core.resume import ResumePlan, prepare_run_resume
from clew.core.review import CannotTell, DidNotHappen, GiveUp, Happened, Verdict
from clew.core.snapshot import RunResult
from clew.core.state import RunState
from clew.core.usage import Usage, UsageCount
from clew.errors import (
    ClewError,
    Corrupt,
    Denied,
    Held,
    KeyHeld,
    NotCompleted,
    NotFound,
    NothingHappened,
    NotVerified,
    Refused,
    ResultNotRecorded,
    Stop,
    Storage,
    ToolError,
    UsageError,
)
from clew.loop import LoopController
from clew.runtime.approvals import ApprovalRequest
from clew.runtime.artifacts import Artifact
from clew.runtime.extensions import Extension
from clew.runtime.home import Home
from clew.runtime.logs import LogContext
from clew.runtime.paths import WORKSPACE, Expected
from clew.runtime.reviewing import Said
from clew.runtime.run import Run, SyncRun
from clew.runtime.session import CoreMindSession
from clew.runtime.tools import Agent, Call, Failed, Tool, agent, tool
from clew.runtime.turns import Turn
from clew.stores.jsonl import FileRunStore

__all__ = [
    "WORKSPACE",
    "Agent",
    "ApprovalRequest",
    "Approve",
    "Artifact",
    "Ask",
    "Call",
    "CannotTell",
    "Check",
    "ClewError",
    "CoreMindSession",
    "Corrupt",
    "Denied",
    "DidNotHappen",
    "DurableOperation",
    "EffectReceipt",
    "Expected",
    "Extension",
    "Failed",
    "FileRunStore",
    "GiveUp",
    "Happened",
    "Held",
    "Home",
    "KeyHeld",
    "LogContext",
    "LoopController",
    "NotCompleted",
    "NotFound",
    "NotVerified",
    "NothingHappened",
    "Policy",
    "Refused",
    "Reject",
    "ResultNotRecorded",
    "ResumePlan",
    "Rule",
    "Run",
    "RunBudget",
    "RunMetrics",
    "RunResult",
    "RunState",
    "Said",
    "Stop",
    "Storage",
    "SyncRun",
    "Tool",
    "ToolError",
    "Turn",
    "Usage",
    "UsageCount",
    "UsageError",
    "Verdict",
    "agent",
    "prepare_run_resume",
    "tool",
]
