"""An agent that goes on with a conversation, and pays what it was told."""

import clew


@clew.tool(effect="external")
def pay(call: clew.Call, order: str) -> dict:
    raise AssertionError("the bank was called")


def model(messages: list) -> str:
    raise AssertionError("the model was asked")


@clew.agent(tools=[pay])
def agent(run: clew.SyncRun, prompt: str) -> int:
    run.say({"role": "user", "content": prompt})
    run.say({"role": "assistant", "content": run.turn(model, run.conversation())})
    run.call(pay, order="1042")
    run.say({"role": "assistant", "content": "paid"})
    return len(run.conversation())
