"""What a conformance kit is made of: cases that run in any test framework, or in none. No case belongs here."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar
from unittest import SkipTest

from clew.errors import ClewError

_SHOWN = 300

L = TypeVar("L")
C = TypeVar("C", bound=ClewError)


class CaseFailed(AssertionError):
    """The thing under test does not do what the case asserts."""


class CaseSkipped(SkipTest):
    """The lab said openly that it cannot do what the case needs, and why. pytest and unittest show it as a skip."""


@dataclass(frozen=True)
class Case(Generic[L]):
    """One behaviour that everything of a kind must show. Lives as long as the program; holds nothing.

    Attributes:
        name: A short sentence with underscores, unique in its kit.
        asserts: Why it matters, in one sentence.
        deed: What is done to a lab; it raises when the behaviour is not there.
        contract: Numbers of the reference contract (`#17`, ...) that it asserts.
    """

    name: str
    asserts: str
    deed: Callable[[L], None]
    contract: tuple[int, ...] = ()

    def run(self, lab: L) -> None:
        """Try it on a lab that no other case has used.

        Raises:
            CaseFailed: what was found is not what every such thing must show.
            CaseSkipped: the lab cannot do what is needed, and says why.
            Exception: whatever the thing under test raised where nothing was to be raised.
        """
        try:
            self.deed(lab)
        except SkipTest:
            raise
        except Exception as fault:
            fault.add_note(f"case {self.name}: {self.asserts}")
            raise

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Outcome:
    """What became of one case; `reason` is empty when it passed."""

    case: str
    verdict: Literal["passed", "skipped", "failed"]
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.verdict:7} {self.case}{self.reason and f': {self.reason}'}"


def check(cases: Iterable[Case[L]], make_lab: Callable[[], L]) -> Iterator[Outcome]:
    """Run every case without a test framework, each on a lab of its own, and say what became of it.

    Args:
        cases: The list of a kit.
        make_lab: Gives a lab that is empty and shares nothing with the one before.
    """
    for case in cases:
        try:
            case.run(make_lab())
        except SkipTest as reason:
            yield Outcome(case.name, "skipped", str(reason))
        except Exception as fault:  # noqa: BLE001  # a stranger's code may raise anything, and all of it is a failure
            yield Outcome(case.name, "failed", f"{type(fault).__name__}: {fault}")
        else:
            yield Outcome(case.name, "passed")


def case(*contract: int) -> Callable[[Callable[[L], None]], Case[L]]:
    """Make a case of a function: its name is the case's, its docstring says why it matters.

    Args:
        contract: Numbers of the reference contract that it asserts.
    """

    def made(deed: Callable[[L], None]) -> Case[L]:
        return Case(deed.__name__, (deed.__doc__ or "").strip(), deed, contract)

    return made


def cases_of(names: dict[str, Any]) -> tuple[Case[Any], ...]:
    """Every case that a module holds (`globals()`), alone or in a tuple, in the order of the file."""
    found: list[Case[Any]] = []
    for value in names.values():
        found += [each for each in (value if type(value) is tuple else (value,)) if isinstance(each, Case)]
    return tuple(found)


def expect(expected: object, actual: object, what: str) -> None:
    """Fail the case unless both are equal. `CaseFailed`."""
    if expected != actual:
        raise CaseFailed(f"{what}: expected {_short(expected)}, found {_short(actual)}")


def refused(family: type[C], code: str, deed: Callable[[], object], what: str) -> C:
    """Fail the case unless the deed raises this error; returns it, so that its facts can be looked at."""
    try:
        done = deed()
    except family as error:
        expect(code, error.code, f"code of the refusal when {what}")
        return error
    except Exception as other:
        raise CaseFailed(f"{what}: expected {family.__name__} ({code}), found {_short(other)}") from other
    raise CaseFailed(f"{what}: expected {family.__name__} ({code}), but it was done and gave {_short(done)}")


def stopped(deed: Callable[[], object], what: str) -> None:
    """Fail the case unless the deed raises something: a bug of the caller's, which no code stands for."""
    try:
        done = deed()
    except Exception:  # noqa: BLE001  # an assertion is as good as a typed refusal where only a bug can lead
        return
    raise CaseFailed(f"{what}: expected a refusal, but it was done and gave {_short(done)}")


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}… ({len(shown)} characters)"
