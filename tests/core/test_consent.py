"""Questions to people by themselves; with the starts that wait for them they are told in `test_conduct`."""

import pytest

from clew.core.consent import Consent
from clew.core.findings import Slip
from tests.histories import RUN, approval, decided, facts

PAY_1 = facts(1)


def consent() -> tuple[Consent, Slip]:
    slip = Slip(keep=9)
    return Consent(RUN, slip), slip


def test_a_start_that_nobody_was_asked_about_needs_no_word() -> None:
    """Most calls are allowed by the policy."""
    asked, slip = consent()
    asked.used(PAY_1.key, PAY_1.fingerprint, "pay-1")

    assert [] == slip.found


@pytest.mark.parametrize(("decision", "count"), [("allow", 0), ("deny", 1), ("expired", 1), ("", 1)])
def test_only_a_yes_lets_it_start(decision: str, count: int) -> None:
    """#229: silence, a no and a question that ran out are three ways of not saying yes."""
    asked, slip = consent()
    asked.required(approval(PAY_1))
    if decision:
        asked.resolved(decided(decision=decision))
    asked.used(PAY_1.key, PAY_1.fingerprint, "pay-1")

    assert ["I-9"] * count == [finding.label for finding in slip.found]


def test_what_was_not_started_has_obeyed() -> None:
    """The receipt closes the no; a later start is asked about anew, or the policy lets it."""
    asked, slip = consent()
    asked.required(approval(PAY_1))
    asked.resolved(decided(decision="deny"))
    asked.obeyed(PAY_1.key)
    asked.used(PAY_1.key, PAY_1.fingerprint, "pay-1")

    assert [] == slip.found
