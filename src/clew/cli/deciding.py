"""The commands by which a person decides about a run, as they are typed. What they do stands in the files beside."""

from typing import Annotated

from cyclopts import Parameter

from clew.cli import acting, approving, restoring
from clew.cli.desk import attend
from clew.cli.root import DEFAULTS, Switch, app
from clew.cli.screen import Options
from clew.core.approvals import Approve, Reject


@app.command(
    sort_key=4, usage="Usage: clew settle RUN [CALL] happened|did-not-happen|give-up --by NAME --reason TEXT [OPTIONS]"
)
def settle(
    run: str,
    call: Annotated[str | None, Parameter(name="[CALL]", show_default=False)] = None,
    verdict: Annotated[str | None, Parameter(name="VERDICT", show_default=False)] = None,
    /,
    *,
    by: str,
    reason: str,
    result: str | None = None,
    evidence: Annotated[list[str] | None, Parameter(negative="")] = None,
    control_id: str = "",
    options: Options = DEFAULTS,
) -> int:
    """Say what became of an effect that nobody can vouch for.

    Shows what is known first. Recorded with who, why and on what evidence. Settled as
    happened, the agent is told the result; as did-not-happen, it is started
    again; give-up ends the run.

    Example: clew settle k3f happened --by ann --reason "bank statement" --result '{"transfer":"T-77"}'

    Args:
        run: Any unique part of the run's id, @last, or an effect's whole key run:step:call.
        call: The effect's step, call id or key; may be left out when one effect is open.
        verdict: happened, did-not-happen or give-up.
        by: Who says so.
        reason: Why.
        result: What the tool would have returned, as JSON. Without it the agent is told that it is not recorded.
        evidence: What it rests on; may be repeated.
        control_id: An id of yours; sent again under it, the same is done once.
        options: What every command takes.
    """
    return attend(
        options,
        lambda desk: acting.settle(
            desk,
            run,
            (call, verdict),
            by=by,
            reason=reason,
            result=result,
            evidence=evidence or [],
            control_id=control_id,
        ),
    )


@app.command(sort_key=4.1, usage="Usage: clew approve RUN [CALL] --by NAME --reason TEXT [OPTIONS]")
def approve(
    run: str,
    call: Annotated[str | None, Parameter(name="[CALL]", show_default=False)] = None,
    /,
    *,
    by: str,
    reason: str,
    expires_in: float | None = None,
    options: Options = DEFAULTS,
) -> int:
    """Let one call start that waits for a person.

    Shows what it may do first. Good for one start of this call with these arguments, and for nothing else; a run that
    is paused starts it when it is resumed.

    Example: clew approve k3f --by ann --reason "invoice checked"

    Args:
        run: Any unique part of the run's id, @last, or a call's whole key run:step:call.
        call: The approval, or its call's step, call id or key; may be left out when one waits.
        by: Who allows it.
        reason: Why.
        expires_in: In how many seconds it lapses, if it is not used.
        options: What every command takes.
    """
    return attend(options, lambda desk: approving.decide(desk, run, call, Approve(by, reason, expires_in)))


@app.command(sort_key=4.2, usage="Usage: clew deny RUN [CALL] --by NAME --reason TEXT [OPTIONS]")
def deny(
    run: str,
    call: Annotated[str | None, Parameter(name="[CALL]", show_default=False)] = None,
    /,
    *,
    by: str,
    reason: str,
    as_answer: Annotated[bool, Switch] = False,
    options: Options = DEFAULTS,
) -> int:
    """Say no to a call that waits for a person.

    The run stays paused, and a resume asks anew. With --as-answer the no is what the agent is told, for good: it may
    go on without the call.

    Example: clew deny k3f --by ann --reason "wrong account"

    Args:
        run: Any unique part of the run's id, @last, or a call's whole key run:step:call.
        call: The approval, or its call's step, call id or key; may be left out when one waits.
        by: Who says no.
        reason: Why; kept and shown.
        as_answer: Tell the agent, instead of asking a person again.
        options: What every command takes.
    """
    return attend(options, lambda desk: approving.decide(desk, run, call, Reject(by, reason, as_answer)))


@app.command(sort_key=5, usage="Usage: clew pause RUN [OPTIONS]")
def pause(
    run: str, /, *, by: str | None = None, reason: str = "requested", control_id: str = "", options: Options = DEFAULTS
) -> int:
    """Ask a living run to pause at its next safe point.

    What has started is not interrupted.

    Example: clew pause k3f --reason "bank holiday"

    Args:
        run: Any unique part of the run's id, or @last.
        by: Who asks; the name you are logged in under when left out.
        reason: Why.
        control_id: An id of yours; sent again under it, the same is done once.
        options: What every command takes.
    """
    return attend(options, lambda desk: acting.pause(desk, run, by=by, reason=reason, control_id=control_id))


@app.command(sort_key=5.5, usage="Usage: clew steer RUN TEXT [OPTIONS]")
def steer(run: str, text: str, /, *, by: str | None = None, control_id: str = "", options: Options = DEFAULTS) -> int:
    """Tell a run's agent something, which it reads when it asks for it.

    The text waits in the journal, through a restart too, and is read once. Whether the agent heeds it is the agent's.

    Example: clew steer k3f "skip order 1043"

    Args:
        run: Any unique part of the run's id, or @last.
        text: What it is told.
        by: Who says it; the name you are logged in under when left out.
        control_id: An id of yours; sent again under it, the same is done once.
        options: What every command takes.
    """
    return attend(options, lambda desk: acting.steer(desk, run, text, by=by, control_id=control_id))


@app.command(sort_key=6, usage="Usage: clew abort RUN [OPTIONS]")
def abort(
    run: str, /, *, by: str | None = None, reason: str = "requested", control_id: str = "", options: Options = DEFAULTS
) -> int:
    """End a run for good; it never goes on.

    Nothing more starts. What it started is ended where it can be: processes by SIGTERM, later SIGKILL. What was started
    stays listed, and what goes on all the same is named.

    Example: clew abort k3f --reason "wrong file"

    Args:
        run: Any unique part of the run's id, or @last.
        by: Who ends it; the name you are logged in under when left out.
        reason: Why.
        control_id: An id of yours; sent again under it, the same is done once.
        options: What every command takes.
    """
    return attend(options, lambda desk: acting.abort(desk, run, by=by, reason=reason, control_id=control_id))


@app.command(sort_key=8, usage="Usage: clew unlock RUN --nonce N --by NAME --reason TEXT [OPTIONS]")
def unlock(
    run: str | None = None, /, *, nonce: str | None = None, by: str, reason: str, options: Options = DEFAULTS
) -> int:
    """Free a run whose owner cannot be proven gone, on your word.

    Make sure first: two that run it at once pay twice.

    Without RUN and --nonce, but with --home PATH: free a home that is a copy, so that its runs go on here. Make sure
    first that the original did not go on since it was copied, and never does.

    Example: clew unlock k3f --nonce 3f9ac1d2e4b5a697 --by ann --reason "that machine was scrapped"

    Args:
        run: Any unique part of the run's id, or @last.
        nonce: The open leg's nonce, as the refused command printed it.
        by: Who says so.
        reason: How you know it.
        options: What every command takes.
    """
    return attend(options, lambda desk: acting.unlock(desk, run, nonce=nonce, by=by, reason=reason))


@app.command(sort_key=2.5, usage="Usage: clew diff RUN [CHECKPOINT] [OPTIONS]")
def diff(run: str, checkpoint: str | None = None, /, *, options: Options = DEFAULTS) -> int:
    """Show what a run's calls changed in files, and how that stands now.

    Text as lines, for all else a word. Says of each path whether `clew restore` would put it back. Changes nothing.

    Example: clew diff k3f k2

    Args:
        run: Any unique part of the run's id, or @last.
        checkpoint: k1, k2 … as they are listed; every one when left out.
        options: What every command takes.
    """
    return attend(options, lambda desk: restoring.diff(desk, run, checkpoint))


@app.command(sort_key=6.5, usage="Usage: clew restore RUN CHECKPOINT [PATH...] [OPTIONS]")
def restore(
    run: str,
    checkpoint: str,
    /,
    *paths: Annotated[str, Parameter(name="[PATH...]", show_default=False)],
    dry_run: Annotated[bool, Switch] = False,
    merge: Annotated[bool, Switch] = False,
    later: Annotated[bool, Switch] = False,
    by: str | None = None,
    reason: str = "requested",
    options: Options = DEFAULTS,
) -> int:
    """Put files back as they stood before a call of a run.

    Only paths of that checkpoint are touched, each by itself: one that somebody changed since stays as it is and is
    named, and the exit code is 4. Killed and typed again, it goes on.

    Example: clew restore k3f k2 src/orders.py --reason "wrong branch"

    Args:
        run: Any unique part of the run's id, or @last.
        checkpoint: k1, k2 … as clew diff lists them.
        paths: Only these and what lies below them, as clew diff shows them; all when left out.
        dry_run: Only say what would become of each path.
        merge: Merge a text that was changed since, where both changes are apart.
        later: Take back what later checkpoints of the run did as well.
        by: Who asks; the name you are logged in under when left out.
        reason: Why; recorded.
        options: What every command takes.
    """
    wish = restoring.Wanted(checkpoint, paths, dry_run=dry_run, merge=merge, later=later)
    return attend(options, lambda desk: restoring.restore(desk, run, wish, by=by, reason=reason))
