"""What is to be said of a session as a whole: open operations, calls without a result. Nothing is mended."""

from clew.core.session.state import SessionState
from clew.core.session.tree import NOWHERE
from clew.core.session.values import CallFound, Judgement, Remark
from clew.core.session.viewing import remarks


def judge(state: SessionState) -> Judgement:
    """Judge a session that was wholly read, over all its branches.

    Source:
        reference/sessions.md §6.1; §8, rows 16 and 17.
    """
    calls = state.calls
    return Judgement(
        open_operations=tuple(state.open_operations.values()),
        orphan_calls=tuple(
            _call(state, call_id, number, "no result stands on any branch below it") for call_id, number in calls.open()
        ),
        double_results=tuple(
            _result(state, call_id, calls.named(number)[0], node, "a result of this call stands above it already")
            for call_id, number, node in calls.doubles
        ),
        stray_results=tuple(
            _result(state, call_id, "", node, "its call does not stand above it") for node, call_id in calls.strays
        ),
        unknown_effects=tuple(
            CallFound(tool.call_id, tool.tool, tool.entry_id, tool.line, tool.byte, "it was started and has no result")
            for tool in state.started_tools.values()
            if tool.why == "never"
        ),
        warnings=(*remarks(state), *_parted(state), *_older(state)),
    )


def _call(state: SessionState, call_id: str, number: int, why: str) -> CallFound:
    tool, node = state.calls.named(number)
    return _result(state, call_id, tool, node, why)


def _result(state: SessionState, call_id: str, tool: str, node: int, why: str) -> CallFound:
    tree = state.tree
    return CallFound(call_id, tool, state.ids.at(node), tree.lines[node], tree.offsets[node], why)


def _parted(state: SessionState) -> list[Remark]:
    """Compactions that stand between a call and its result."""
    tree = state.tree
    return [
        Remark(
            "compaction_between",
            "a compaction stands between a call and its result",
            tree.lines[node],
            tree.offsets[node],
            (state.ids.at(node), call_id),
        )
        for call_id, _, node in state.calls.parted
    ]


def _older(state: SessionState) -> list[Remark]:
    """Summaries that stand in what a later one keeps: the two programs of old show them differently.

    Source:
        reference/sessions.md §4.5, rule 4.
    """
    tree, found = state.tree, []
    how = "shown" if state.agent_core else "not shown"
    for node, first in state.kept.items():
        above = tree.parents[node]
        older = tree.compacted[above] if above != NOWHERE else NOWHERE
        if first >= 0 and older != NOWHERE and tree.leads_to(first, older):
            text = f"an older summary stands in what this one keeps; it is {how}, as by the program that wrote it"
            ids = (state.ids.at(node), state.ids.at(older))
            found.append(Remark("older_summary", text, tree.lines[node], tree.offsets[node], ids))
    return found
