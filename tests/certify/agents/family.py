"""An agent without a fault that does all at once: side by side, by a child, with approvals and a business key."""

from bank import really

import clew


@clew.tool(effect="external", timeout_s=60)
async def pay(call: clew.Call, order: str) -> dict[str, str]:
    really(f"paid {order}")
    return {"transfer": order}


@clew.tool(effect="external", key=lambda order, **_: order)
def book(order: str) -> dict[str, str]:
    really(f"booked {order}")
    return {"booked": order}


def ask_about_books(call: clew.Call) -> clew.Ask | None:
    return clew.Ask("a person decides") if call.tool == "book" else None


async def model(request: dict[str, str]) -> clew.Turn:
    really("asked a model")
    return clew.Turn("pay them", clew.Usage(tokens=1))


@clew.agent(tools=[book])
def clerk(run: clew.SyncRun, prompt: str) -> str:
    return str(run.call(book, order=prompt)["booked"])


@clew.agent(tools=[pay, book], policy=ask_about_books)
async def agent(run: clew.Run, prompt: str) -> list[str]:
    await run.turn(model, {"asked": prompt})
    async with run.group() as group:
        for order in ("a", "b", "c"):
            group.call(pay, order=order)
    done = [await run.child(clerk, "x"), (await run.call(book, order="y"))["booked"]]
    done += [each["transfer"] for each in group.results]
    await run.check("all five", lambda: len(done) == 5)
    return done
