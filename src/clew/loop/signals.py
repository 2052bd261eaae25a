"""What an error means for a loop: the retry and cancel classes of the contract's codes. Raises and catches nothing."""

from typing import Final

from clew.loop.machine import LoopEvent

UNCLASSIFIED: Final = "unclassified_error"


def _codes(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CANCEL: Final = _codes("aborted process_aborted")
_TIMEOUT: Final = _codes("run_timeout step_timeout process_timeout")
_BUDGET: Final = _codes(
    """budget_exceeded retry_limit step_limit child_run_concurrency_limit process_output_limit diff_complexity_limit
    diff_input_limit diff_output_limit"""
)
_HUMAN: Final = _codes(
    """approval_denied tool_approval_denied policy_denied loop_paused unknown_effect committed_effect_pending
    context_budget_exhausted context_capability_conflict context_artifact_missing unclassified_error
    workspace_lease_recovery_required child_run_orphan_audit_required coding_choice_required extension_not_trusted
    extension_capability_denied egress_policy_missing egress_policy_denied feedback_consent_missing
    content_consent_missing environment_capability_mismatch environment_requirement_unsatisfied
    environment_activity_conflict execution_security_violation secret_reference_unresolved"""
)
# Corruption, refusals, what may pass by itself, and all that is fatal otherwise: the loop fails.
_OTHER: Final = _codes(
    """resume_input_mismatch resume_config_mismatch run_already_finished operation_not_resumable unknown_run
    child_run_policy_escalation child_run_unavailable child_run_not_quiescent run_state_failed run_state_corrupt
    run_state_conflict run_state_locked durability_unsupported durability_barrier_failed fact_ledger_poisoned
    fact_ledger_terminal invalid_run_id run_id_conflict checkpoint_corrupt checkpoint_conflict checkpoint_failed
    invalid_checkpoint_id loop_snapshot_invalid loop_snapshot_mismatch loop_config_invalid loop_state_invalid
    operation_state_corrupt invalid_operation_state invalid_operation_transition invalid_session_id
    session_restore_failed session_layout_conflict session_migration_invalid session_migration_conflict
    session_migration_failed session_migration_unsupported session_alias_failed session_open_locked invalid_config
    invalid_tool tool_capability_conflict tool_lifecycle_invalid effect_receipt_conflict control_invalid
    control_run_mismatch workspace_lease_invalid workspace_lease_not_quiescent environment_terminate_failed
    context_lineage_corrupt delegation_conflict child_run_parent_mismatch child_run_identity_mismatch
    quality_override_audit_failed invalid_run_handle invalid_event_page invalid_projection_query
    invalid_control_receipt invalid_run_snapshot invalid_observability coding_verification_claim_mismatch
    coding_delivery_not_verified experiment_invalid experiment_run_invalid extension_invalid extension_duplicate
    configuration_mismatch redaction_failed git_invalid_request git_path_outside_workspace
    diff_path_outside_workspace network_error provider_unavailable provider_timeout provider_transient rate_limit
    workspace_busy dns tls http_429 timeout exporter_unavailable checkpoint_not_found checkpoint_too_large
    checkpoint_not_reversible tool_execution_failed child_run_adapter_failed worker_closed already_initialized
    worker_busy duplicate_tool duplicate_tool_call unknown_tool_call python_tool_failed unknown_approval
    not_initialized concurrent_run control_unavailable unknown_agent unknown_provider agent_failed no_agent
    no_prompt no_models loop_failed loop_exhausted loop_no_progress verification_failed retry_exhausted
    cursor_ahead cursor_expired protocol_validation_failed protocol_version_mixed protocol_version_unsupported
    protocol_capability_missing protocol_version_mismatch parse_error internal_error coding_invalid_choice
    coding_invalid_change http_401 exporter_failed environment_probe_failed git_command_failed
    process_spawn_failed unknown"""
)


def signal(code: str, message: str) -> LoopEvent:
    """The event that an error with this code is; one that the contract does not know wants a person.

    Source:
        Contract §4, #221.
    """
    if code in _CANCEL:
        return LoopEvent("ABORT", message=message)
    if code in _TIMEOUT:
        return LoopEvent("TIMEOUT", message=message)
    if code in _BUDGET:
        return LoopEvent("BUDGET_EXCEEDED", message=message)
    if code in _OTHER:
        return LoopEvent("FAIL", code=code, message=message)
    return LoopEvent("PAUSE", code=code if code in _HUMAN else UNCLASSIFIED, message=message)
