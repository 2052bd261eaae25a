"""An agent whose one change to the workspace needs a person's yes: it writes down what it was asked to note."""

import clew
from clew.toolkit import write_file

POLICY = clew.Policy(rules=[clew.Rule("ask", "write_file", reason="it changes a file of yours")])


@clew.agent(tools=[write_file], policy=POLICY)
def note(run: clew.SyncRun, prompt: str) -> str:
    run.call(write_file, path="notes.txt", content=f"{prompt}\n")
    return "noted"
