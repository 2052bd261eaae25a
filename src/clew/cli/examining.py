"""`clew doctor`: look over the home and its machine, and say what to do. Changes nothing."""

from clew.cli.desk import Desk
from clew.cli.loading import load_agent
from clew.cli.screen import others_to_stderr
from clew.views.checkup import exit_code, finding_lines, judge, summary


def doctor(desk: Desk, target: str | None) -> int:
    """Every finding, and the exit code of the worst problem."""
    home = desk.home().require()
    agent = None
    if target is not None:
        with others_to_stderr():
            agent = load_agent(target)
    found = home.checkup(agent)
    findings = judge(found)
    code = exit_code(findings)
    if desk.options.json:
        desk.screen.answer_json({"findings": findings, "exit": code, "facts": found})
    else:
        desk.screen.answer_lines(finding_lines(findings))
        desk.screen.tell(summary(findings))
    return code
