"""What is under way in a leg is counted, named, and never lets an error of the journal reach the agent."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from clew.errors import Refused, Stop
from clew.runtime.flights import Flights


def ticket(*, ran: bool) -> Any:
    return SimpleNamespace(ran=ran, facts=SimpleNamespace(key="r1:pay-1:c1"))


def refused() -> Refused:
    return Refused("too large", code="append_too_large", next="Make it smaller.")


def test_what_is_under_way_is_counted_and_named() -> None:
    """A settlement is refused, and a leg waits, while an effect is under way."""
    flights, landed = Flights(lambda fault, ticket: None), list[int]()
    flights.landed = lambda: landed.append(flights.count)

    with flights.flight(ticket(ran=False)), flights.flight():
        under_way = (flights.count, flights.keys)

    assert ((2, {"r1:pay-1:c1"}), 0, set()) == (under_way, flights.count, flights.keys)
    assert [] == landed


def test_who_waits_is_told_of_each_that_ends() -> None:
    """A leg ends when the last call that is under way has ended; until somebody waits for that, nobody is woken."""
    flights, landed = Flights(lambda fault, ticket: None), list[int]()
    flights.landed = lambda: landed.append(flights.count)

    with flights.flight(), flights.flight(ticket(ran=True)):
        flights.end()

    assert [1, 0] == landed


def test_after_the_end_of_the_agent_no_call_begins() -> None:
    """A thread that the agent left behind must not pay after the run was completed; a turn is cut off by its time."""
    flights = Flights(lambda fault, ticket: None)
    flights.end()

    with pytest.raises(Stop), flights.flight(ticket(ran=False)):
        pass
    with flights.flight():
        pass

    assert 0 == flights.count


def test_a_call_that_was_struck_at_its_edge_is_not_waited_for_for_ever() -> None:
    """Ctrl-C between `__enter__` and the body: nobody calls `__exit__`, and its thread has left all the same."""
    flights, elsewhere = Flights(lambda fault, ticket: None), Flights(lambda fault, ticket: None)
    flights.flight(ticket(ran=False)).__enter__()
    thread = threading.Thread(target=lambda: elsewhere.flight().__enter__())
    thread.start()
    thread.join()

    for each in (flights, elsewhere):
        each.forget_here()

    assert (0, 1) == (flights.count, elsewhere.count)


@pytest.mark.parametrize("fault", [OSError("disk"), refused()], ids=["disk", "refused after the start"])
def test_an_error_of_the_journal_stops_the_agent(fault: Exception) -> None:
    """An agent that is told of an error might go on as if it knew."""
    broken = list[Any]()
    flights = Flights(lambda fault, ticket: broken.append((fault, ticket is not None and ticket.ran)))

    with pytest.raises(Stop, match="no longer be written"), flights.flight(ticket(ran=True)):
        raise fault

    assert [(fault, True)] == broken


def test_what_is_refused_before_it_ran_is_told() -> None:
    """Nothing was written and nothing started, so the agent may go on."""
    broken = list[Any]()
    flights = Flights(lambda fault, ticket: broken.append(fault))

    with pytest.raises(Refused), flights.flight(ticket(ran=False)):
        raise refused()

    assert [] == broken


def test_an_interrupt_breaks_the_leg_and_goes_on() -> None:
    """Ctrl-C in an append is no error of the agent's, and nothing more may be acknowledged."""
    broken = list[Any]()
    flights = Flights(lambda fault, ticket: broken.append(type(fault)))

    with pytest.raises(KeyboardInterrupt), flights.flight(ticket(ran=True)):
        raise KeyboardInterrupt

    assert [KeyboardInterrupt] == broken


def test_a_stop_goes_through_as_it_is() -> None:
    """The gate has closed already; nothing is broken."""
    broken = list[Any]()
    flights = Flights(lambda fault, ticket: broken.append(fault))

    with pytest.raises(Stop, match="pausing"), flights.flight(ticket(ran=True)):
        raise Stop("the run is pausing")

    assert [] == broken
