"""A policy by rules: which word holds for which call, and where a path may lead."""

from typing import Any

import pytest

from clew.core.capability import resolve
from clew.core.policy import Ask, Policy, Rule, path_texts, strictest, url_texts
from clew.errors import UsageError

LOOK, EDIT, PAY = resolve("look", "none"), resolve("edit", "workspace"), resolve("pay", "external")
ONCE = resolve("once", "none", "idempotent")


def inside(path: str) -> str | None:
    """A workspace that knows nothing but its own names."""
    return None if path.startswith(("/", "..")) else path


def word(policy: Policy, capability: Any, **arguments: Any) -> str:
    """What the policy says of this call."""
    said = policy.judge(capability.tool, capability, arguments, inside)
    return "allow" if said is None else "ask" if isinstance(said, Ask) else "deny"


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("full", ["allow", "allow", "allow", "allow", "allow"]),
        ("assisted", ["allow", "allow", "allow", "ask", "ask"]),
        ("ask", ["allow", "ask", "ask", "ask", "ask"]),
    ],
)
def test_a_mode_asks_by_what_a_call_may_change(mode: Any, words: list[str]) -> None:
    """The undeclared counts as external: nobody said that it is harmless."""
    found = [word(Policy(mode), each) for each in (LOOK, ONCE, EDIT, PAY, resolve("undeclared"))]

    assert words == found


def test_the_first_rule_that_matches_holds() -> None:
    """So that an exception stands above its rule."""
    policy = Policy("full", [Rule("allow", "pay_small"), Rule("ask", "pay*"), Rule("deny", "*")])

    assert ["allow", "ask", "deny"] == [word(policy, resolve(name)) for name in ("pay_small", "pay_all", "drop")]


def test_a_mode_holds_where_no_rule_does() -> None:
    """A rule for one tool says nothing of another."""
    assert "ask" == word(Policy("assisted", [Rule("allow", "look")]), PAY)


def test_a_rule_says_why() -> None:
    """Whoever is asked, or refused, is told; a question lapses as the policy says."""
    policy = Policy(
        "full",
        [Rule("ask", "pay", reason="money"), Rule("deny", "drop", reason="never"), Rule("deny", "x")],
        expires_in_s=60,
    )

    assert [Ask("money", 60), "never", "a rule denies it"] == [
        policy.judge(name, PAY, {}, inside) for name in ("pay", "drop", "x")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("then", "paths", "expected"),
    [
        ("allow", "reports/may.txt", "allow"),
        ("allow", ["reports/may.txt", "reports/june.txt"], "allow"),
        ("allow", ["reports/may.txt", "secrets/key"], "ask"),
        ("allow", "reports/2026/may.txt", "ask"),
        ("allow", "../reports/may.txt", "ask"),
        ("allow", [], "ask"),
        ("allow", 7, "ask"),
        ("deny", "reports/may.txt", "deny"),
        ("deny", ["secrets/key", "reports/may.txt"], "deny"),
        ("deny", "secrets/key", "ask"),
        ("deny", "../elsewhere", "deny"),
        ("deny", [], "ask"),
    ],
)
def test_a_rule_for_paths_allows_all_or_stops_any(then: Any, paths: Any, expected: str) -> None:
    """What leads out of the workspace is never allowed by a rule, and always stopped by one."""
    policy = Policy("ask", [Rule(then, "edit", paths=("reports/*",))])

    assert expected == word(policy, EDIT, path=paths)


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("**", "a/b/c", True),
        ("src/**/x.py", "src/x.py", True),
        ("src/**/x.py", "src/a/b/x.py", True),
        ("src/**", "src/a/b", True),
        ("*.md", "a/b.md", False),
        ("?.md", "a.md", True),
        ("?.md", "ab.md", False),
        ("a+b", "a+b", True),
        ("a+b", "aab", False),
    ],
)
def test_a_pattern_is_as_one_reads_it(pattern: str, path: str, matches: bool) -> None:
    """A star stays within a name; everything but stars and question marks is itself."""
    assert matches == (word(Policy("ask", [Rule("allow", paths=(pattern,))]), EDIT, path=path) == "allow")


def test_a_rule_may_name_the_arguments_that_are_paths() -> None:
    """A tool of one's own calls them as it likes, and may reach outside of the workspace by other means."""
    policy = Policy("full", [Rule("deny", "pay", paths=("secrets/*",), arguments=("statement",))])

    assert ["deny", "allow"] == [word(policy, PAY, statement="secrets/a"), word(policy, PAY, path="secrets/a")]


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Policy("sometimes"),  # type: ignore[arg-type]  # what a user may type
        lambda: Policy("full", [Rule("maybe")]),  # type: ignore[arg-type]  # what a user may type
        lambda: Policy("full", ["pay"]),  # type: ignore[list-item]  # what a user may type
        lambda: Policy("full", [Rule("deny", paths="secrets")]),  # type: ignore[arg-type]  # what a user may type
        lambda: Policy("full", expires_in_s=0),
    ],
    ids=["mode", "word", "no rule", "paths as one text", "lapses at once"],
)
def test_a_policy_that_means_nothing_is_refused(declare: Any) -> None:
    """Found when the agent is declared, not when the money is gone."""
    with pytest.raises(UsageError) as caught:
        declare()

    assert "invalid_policy" == caught.value.code


def test_a_policy_is_declared_as_it_is_said() -> None:
    """Its rules are part of what a run was started with."""
    rule = Rule("deny", "write", paths=("secrets/*",))

    assert {
        "mode": "assisted", "rules": [{"then": "deny", "tool": "write", "paths": ["secrets/*"]}],
    } == Policy("assisted", [rule]).declared()  # fmt: skip


def test_paths_and_addresses_are_found_among_arguments() -> None:
    """A person is shown what a start would touch."""
    arguments = {"path": "a", "files": ["b", 1, "c"], "other": "d", "url": "https://e", "count": 2}

    assert (["a", "b", "c"], ["https://e"]) == (list(path_texts(arguments, ("path", "files"))), url_texts(arguments))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), None),
        ((None, None), None),
        ((None, Ask("a")), Ask("a")),
        ((Ask("a"), None), Ask("a")),
        ((Ask("a"), "no"), "no"),
        (("no", Ask("a")), "no"),
        ((None, "no", "never"), "no"),
        ((Ask("a"), Ask("b")), Ask("a")),
        ((Ask(), Ask("b")), Ask("b")),
        ((Ask("a", 60), Ask("b", 5)), Ask("a", 5)),
        ((Ask("a"), Ask("b", 5)), Ask("a", 5)),
    ],
)
def test_the_strictest_of_several_words_holds(words: Any, expected: Any) -> None:
    """A refusal outweighs a question, a question a yes, whoever says it."""
    assert expected == strictest(words)


def test_nobody_is_asked_behind_a_refusal() -> None:
    """It would change nothing."""
    words = iter(["no", None])

    assert ("no", [None]) == (strictest(words), list(words))
