"""The commands as they are typed: their words, options and help. What they do stands in the files beside."""

import shlex
from collections.abc import Sequence
from typing import Annotated

from cyclopts import (
    CycloptsError,
    MissingArgumentError,
    Parameter,
    UnknownCommandError,
    UnusedCliTokensError,
)

from clew.cli import acting, deciding, examining, finding, keeping, looking, resuming, running, session
from clew.cli.desk import Desk, attend
from clew.cli.limits import NO_LIMITS, Limits
from clew.cli.root import DEFAULTS, Choice, Switch, app
from clew.cli.screen import Options, Screen, lenient, stand_in
from clew.errors import ClewError, UsageError

__all__ = ["app", "deciding", "serve", "session"]


@app.command(sort_key=0, usage="Usage: clew run FILE:AGENT [INPUT] [OPTIONS]")
def run(
    target: Annotated[str, Parameter(name="FILE:AGENT")],
    input: str | None = None,
    /,
    *,
    run_id: str | None = None,
    session: str | None = None,
    max_calls: int | None = None,
    timeout: float | None = None,
    limits: Limits = NO_LIMITS,
    on_error: Choice = "pause",
    on_limit: Choice = "pause",
    options: Options = DEFAULTS,
) -> int:
    """Start a run of an agent and see it to its end or its pause.

    Prints the run's id at once, what happens while it happens, and the agent's output on stdout. Ctrl-C once pauses at
    the next safe point, twice aborts. Makes a home (.clew) in this folder when there is none.

    Example: clew run examples/orders/agent.py:settle "settle orders.csv" --max-calls 100

    Args:
        target: A Python file and the name of a @clew.agent or of a function agent(run, input) in it.
        input: What the agent is asked; text.
        run_id: An id of your own; made when left out.
        session: The conversation that it goes on with, by its id; begun when it is not there.
        max_calls: Pause before a call above this number.
        timeout: Pause when the agent has been running for so many seconds.
        limits: What else is limited.
        on_error: When the agent raises: pause, so that it can be mended and resumed, or fail for good.
        on_limit: The same at a limit.
        options: What every command takes.
    """
    terms = running.Terms(max_calls, timeout, on_error, on_limit, limits)
    return attend(options, lambda desk: running.run(desk, target, input, run_id, terms, session))


@app.command(sort_key=1)
def ls(*, options: Options = DEFAULTS) -> int:
    """List the runs: how each stands, and what to do next.

    Example: clew ls
    """
    return attend(options, looking.ls)


@app.command(sort_key=2, usage="Usage: clew show RUN [OPTIONS]")
def show(
    run: str,
    /,
    *,
    effects: Annotated[bool, Switch] = False,
    log: Annotated[bool, Switch] = False,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], negative="", show_default=False)] = False,
    artifacts: Annotated[bool, Switch] = False,
    artifact: str | None = None,
    output: Annotated[str | None, Parameter(name=["--output", "-o"])] = None,
    options: Options = DEFAULTS,
) -> int:
    """Show one run: how far it came, what is open, what to do next; or what it kept.

    Example: clew show @last --effects

    Args:
        run: Any unique part of the run's id, or @last.
        effects: Every effect as a table: what was asked, how it stands, its attempts, its key and UUID.
        log: Every record, one line each.
        follow: With --log: go on with new records until nobody writes the run any more.
        artifacts: What the run kept, a line each.
        artifact: The content of one of them, by its name, to stdout byte for byte.
        output: With --artifact: into a new file instead; one that is there is never replaced.
        options: What every command takes.
    """
    if artifacts or artifact is not None or output is not None:
        return attend(options, lambda desk: keeping.show(desk, run, artifact, output))
    return attend(options, lambda desk: looking.show(desk, run, effects=effects, log=log, follow=follow))


@app.command(sort_key=3, usage="Usage: clew resume RUN|--all [OPTIONS]")
def resume(
    run: str | None = None,
    /,
    *,
    every: Annotated[bool, Parameter(name="--all", negative="", show_default=False)] = False,
    dry_run: Annotated[bool, Switch] = False,
    agent: str | None = None,
    max_calls: int | None = None,
    timeout: float | None = None,
    limits: Limits = NO_LIMITS,
    on_error: Choice = "pause",
    on_limit: Choice = "pause",
    accept_config: Annotated[bool, Switch] = False,
    by: str | None = None,
    reason: str | None = None,
    options: Options = DEFAULTS,
) -> int:
    """Let a stopped run go on; nothing is guessed or done twice.

    Answered calls replay, open ones are asked after, what cannot be known waits for a person.

    Takes a run over from a process that is provably gone, and prints the proof. Finds the agent where the run recorded
    it.

    With --all every run that can go on, the oldest first; one that fails does not keep the next from its turn. Runs
    that wait for a person, for new limits or for another process are named and left as they are. Ends with the worst
    that happened: 1, 13, 12, 11, 10, 4, 2, then 3, 22, 21, 20, 23, 5, else 0; Ctrl-C pauses the run at hand and ends
    it all.

    Example: clew resume k3f --dry-run

    Args:
        run: Any unique part of the run's id, or @last.
        every: Every run of the home that can go on, one after another.
        dry_run: Only print the plan: what would happen to every step, and why. Touches nothing.
        agent: FILE:AGENT, when the agent is not where it was.
        max_calls: A new limit for all calls of the run, those made before included.
        timeout: A new limit for all the seconds that the agent runs, those spent before included.
        limits: New limits of what else is limited, over all legs.
        on_error: When the agent raises: pause or fail.
        on_limit: The same at a limit.
        accept_config: Go on although what the agent declares has changed; recorded, with --by and --reason.
        by: Who accepts it.
        reason: Why.
        options: What every command takes.
    """
    terms = running.Terms(max_calls, timeout, on_error, on_limit, limits)
    one = run is not None or agent is not None or accept_config or by is not None or reason is not None

    def deed(desk: Desk) -> int:
        resuming.require_one_or_all(run, every=every, alone=not one)
        if run is None:
            return resuming.resume_all(desk, terms, dry_run=dry_run)
        return running.resume(desk, run, agent, terms, running.accepted(accept_config, by, reason), dry_run=dry_run)

    return attend(options, deed)


@app.command(sort_key=7, usage="Usage: clew verify [RUN] [OPTIONS]")
def verify(
    run: str | None = None,
    /,
    *,
    deep: Annotated[bool, Switch] = False,
    against: str | None = None,
    accept_loss: Annotated[bool, Switch] = False,
    by: str | None = None,
    reason: str | None = None,
    nonce: str = "",
    options: Options = DEFAULTS,
) -> int:
    """Check that journals are what clew wrote, to their ends.

    Changes nothing, unless a loss is accepted; ends with 12 when one is damaged or contradicts itself.

    Example: clew verify --deep

    Args:
        run: Any unique part of the run's id, or @last; all runs when left out.
        deep: Let a second reader judge what is said in them as well, by the twelve invariants.
        against: FILE with what `clew verify --json` said before, kept elsewhere: a journal that was cut, or put back
            from an older copy since, is found only so.
        accept_loss: Go on from what is left although records are missing; recorded, with --by and --reason.
        by: Who accepts it.
        reason: Why.
        nonce: Of the open leg, when its owner cannot be proven gone.
        options: What every command takes.
    """
    if accept_loss or by or reason or nonce:
        loss = acting.Loss(accept_loss, by or "", reason or "", nonce)
        return attend(options, lambda desk: acting.accept_loss(desk, run, loss))
    return attend(options, lambda desk: looking.verify(desk, run, deep=deep, against=against))


@app.command(sort_key=9)
def doctor(*, agent: str | None = None, options: Options = DEFAULTS) -> int:
    """Look over the home and its machine: what is wrong, what is left open, what cannot be known.

    Changes nothing. Ends with 0 unless there is a problem: then with the code that a run would meet there, 4 refused,
    12 damaged, 13 storage, the highest of them. Of runs that have ended it believes the head; `clew verify` reads all.

    Example: clew doctor

    Args:
        agent: FILE:AGENT, whose tools are looked at as well.
        options: What every command takes.
    """
    return attend(options, lambda desk: examining.doctor(desk, agent))


@app.command(sort_key=10, usage="Usage: clew find KEY [--tool NAME] [OPTIONS]")
def find(
    key: str | None = None,
    /,
    *,
    tool: str | None = None,
    rebuild: Annotated[bool, Switch] = False,
    options: Options = DEFAULTS,
) -> int:
    """Find the run that has a business key: how it stands there, since when, what to do next.

    Ends with 10 when nobody has it. Reads the index, and the journals of the runs that have the key.

    With --rebuild instead of KEY: read every journal and make the index hold what they hold. Nothing is taken out of
    it. Ends with 12 while a journal cannot be read, for then nobody knows which keys it has.

    Example: clew find 1042 --tool pay

    Args:
        key: The key as the tool's key function gives it; a JSON value that is no text as JSON.
        tool: Only of this tool.
        rebuild: Build the index anew from the journals.
        options: What every command takes.
    """
    return attend(options, lambda desk: finding.find(desk, key, tool, rebuild=rebuild))


@app.command(sort_key=12, usage="Usage: clew certify FILE:AGENT [INPUT] [OPTIONS]")
def certify(
    target: Annotated[str, Parameter(name="FILE:AGENT")],
    input: str | None = None,
    /,
    *,
    session: str | None = None,
    points: int | None = None,
    point: str = "",
    budget: float = 300.0,
    seed: str = "1",
    answers: str = "",
    recorded: Annotated[str, Parameter(name="--from")] = "",
    live: Annotated[bool, Switch] = False,
    yes: Annotated[bool, Switch] = False,
    keep: str = "",
    workspace: str = "",
    may_write: Annotated[tuple[str, ...], Parameter(name="--may-write", negative="")] = (),
    options: Options = DEFAULTS,
) -> int:
    """Kill an agent of yours wherever it can die, in a scratch home, and say what it does then.

    Real processes, really killed: at every append, before and behind it, and around every effect; then resumed to
    their end. Bodies of external tools and models are not run: what they answer comes from --answers, --from or --live.
    Ends with 0 when nothing was found at any point, 3 when something was, 5 when nothing was but not every point was
    tried.

    Example: clew certify agent.py:settle "settle orders.csv" --answers answers.json

    Args:
        target: A Python file and the name of a @clew.agent or of a function agent(run, input) in it.
        input: What the agent is asked; text.
        session: The conversation that it goes on with, by any id; each life begins it anew.
        points: How many points; every one with one death when left out. More than those are second deaths, by lot.
        point: Only this one, as a report names it.
        budget: Begin no more lives after so many seconds.
        seed: What chance and the lot are drawn from.
        answers: A JSON file of what tools and models answer.
        recorded: A run of the home whose answers are taken.
        live: Run the agent once for real first, and take what was answered then; asks before it does.
        yes: With --live: do not ask.
        keep: With --live: write what was answered to this file, for --answers.
        workspace: The folder that is copied for each life; the home's parent when left out.
        may_write: A folder outside that the agent may write to; may be given again.
        options: What every command takes.
    """
    # Whoever only looks at runs need not wait until all is imported that tries agents.
    from clew.cli import certifying  # noqa: PLC0415  # see above

    asked = certifying.Asked(
        target, input, session, points, point, budget, seed, answers, recorded, live, yes, keep, workspace,
        tuple(may_write),
    )  # fmt: skip
    return attend(options, lambda desk: certifying.certify(desk, asked))


@app.command(sort_key=11)
def prune(
    *,
    keep_days: float | None = None,
    quota: Annotated[str | None, Parameter(name="--quota")] = None,
    answers: Annotated[bool, Switch] = False,
    dry_run: Annotated[bool, Switch] = False,
    options: Options = DEFAULTS,
) -> int:
    """Free what no run needs any more; alone in the home, and never a journal or a receipt.

    What no journal refers to goes always. Contents of checkpoints and artifacts of runs that have ended go, the oldest
    first, where --keep-days or --quota asks for it; with both, of what is older so much that the quota is met. What
    goes is recorded first, so that it reads as pruned and not as damage. Ends with 11 while a run goes on.

    Example: clew prune --keep-days 30 --dry-run

    Args:
        keep_days: Keep the contents of runs that ended in so many days.
        quota: Let the blobs take no more than this: 500M, 2G.
        answers: Long answers of ended runs go as well, except those under a business key.
        dry_run: Only say what would go. Touches nothing.
        options: What every command takes.
    """
    return attend(options, lambda desk: keeping.prune(desk, keep_days, quota, answers=answers, dry_run=dry_run))


def serve(argv: Sequence[str]) -> int:
    """Take the words apart, do the command, return its exit code."""
    stand_in()
    lenient()
    tokens = list(argv)
    try:
        code = app(tokens, print_error=False, exit_on_error=False, result_action="return_value")
    except CycloptsError as error:
        Screen(Options(json="--json" in tokens)).fail(_usage(error))
        return UsageError.exit_code
    except KeyboardInterrupt:
        return 130
    return code if isinstance(code, int) else 0


def _usage(error: CycloptsError) -> ClewError:
    chain = [name for name in error.command_chain or () if name]
    return UsageError(
        _what(error),
        code="invalid_command_line",
        next=f"See `{' '.join(['clew', *chain])} --help`.",
    )


def _what(error: CycloptsError) -> str:
    """What is wrong with the words that were typed, in ours where the parser's say little."""
    tokens = error.root_input_tokens or [""]
    if isinstance(error, UnusedCliTokensError):
        return f"too many words: {shlex.join(error.unused_tokens or [])}; a text of several words stands in quotes"
    if isinstance(error, MissingArgumentError) and error.argument is not None and error.keyword is None:
        return f"{error.argument.name} is missing"
    if isinstance(error, UnknownCommandError) and tokens[0].startswith("-"):
        return f"{tokens[0]} stands before the command; options stand behind it, as in `clew ls --home PATH`"
    return str(error).strip()
