"""What is hidden, and what must not be."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.redact import Redactor
from clew.errors import UsageError
from tests.strategies import json_values, scalars

OPEN = Redactor()
OURS = Redactor(["hunter2", "hunter2-long", "password"])


def made(prefix: str, length: int) -> str:
    """A secret that is none: put together here, so that no scanner takes this file for a leak."""
    return prefix + ("a1B2c3D4e5F6" * 20)[:length]


PEM_BODY = "\n".join(["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7" + "A1b2" * 3] * 4)
PGP = f"-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 4\n\n{PEM_BODY}\n=njUN\n-----END PGP PRIVATE KEY BLOCK-----"
SECRETS = [
    ("anthropic-key", made("sk-" + "ant-api03-", 40)),
    ("openai-key", made("sk-" + "proj-", 48)),
    ("openai-key", made("sk-", 48)),
    ("openai-key", "sk-" + "or-v1-" + "0123456789abcdef" * 4),
    ("github-token", made("gh" + "p_", 36)),
    ("github-token", made("gh" + "o_", 36)),
    ("github-token", made("gh" + "s_", 36)),
    ("github-token", made("github" + "_pat_", 60)),
    ("gitlab-token", made("gl" + "pat-", 20)),
    ("aws-key", "AK" + "IA" + "ABCDEFGH12345678"),
    ("aws-key", "AS" + "IA" + "ABCDEFGH12345678"),
    ("slack-token", "xo" + "xb-123456789012-abcdefABCDEF"),
    ("google-key", made("AI" + "za", 35)),
    ("stripe-key", made("sk" + "_live_", 24)),
    ("stripe-key", made("rk" + "_live_", 24)),
    ("jwt", "ey" + "JhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0." + "c2lnbmF0dXJl_x-1"),
    ("private-key", f"-----BEGIN PRIVATE KEY-----\n{PEM_BODY}\nq==\n-----END PRIVATE KEY-----"),
    ("private-key", f"-----BEGIN OPENSSH PRIVATE KEY-----\r\n{PEM_BODY}\r\n-----END OPENSSH PRIVATE KEY-----"),
    ("private-key", f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0A\n\n{PEM_BODY}"),
    ("private-key", PGP),
    ("private-key", json.dumps(f"-----BEGIN PRIVATE KEY-----\n{PEM_BODY}\n-----END PRIVATE KEY-----")[1:-1]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "secret"), SECRETS)
@pytest.mark.parametrize(
    ("before", "after"), [("", ""), ("KEY=", "\n"), ('{"x":"', '"}'), ("see ", ", ok"), ("\\n", "\\n")]
)
def test_a_known_shape_is_hidden(kind: str, secret: str, before: str, after: str) -> None:
    """Credentials in tool output were the commonest leak of transcripts (C125)."""
    assert f"{before}[redacted:{kind}]{after}" == OPEN.text(before + secret + after)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_only_the_credential_of_a_bearer_header_is_hidden(scheme: str) -> None:
    """The rest of the header explains a 401."""
    assert f"-H '{scheme} [redacted:bearer]'" == OPEN.text(f"-H '{scheme} {made('', 24)}'")


@pytest.mark.parametrize(
    ("expected", "url"),
    [
        ("postgres://app:[redacted:url-password]@db:5432/x", "postgres://app:s3cret@db:5432/x"),
        ("redis://:[redacted:url-password]@h", "redis://:p@h"),
        ("amqp://app:[redacted:url-password]@h", "amqp://app:a:b@h"),
    ],
)
def test_only_the_password_of_a_url_is_hidden(expected: str, url: str) -> None:
    """Host and path stay, so that an operator can look (contract #238)."""
    assert expected == OPEN.text(url)


@pytest.mark.parametrize(
    "text",
    [
        "a task-force-of-twelve-people-meets-in-2026-Again",
        "see sk-estimator-doc-link fitted and sk-toggleable__label-arrow-2",
        "the risk-assessment-methodology-of-2024-And-after",
        "task-ant-colony-optimization-for-routes-1",
        "The bearer authorization_endpoint_supported is listed",
        "the forbearer abcdefgh12345678 said",
        "if text.startswith('-----BEGIN PRIVATE KEY-----'):\n    raise ValueError('a private key of 4096 bits')",
        "-----BEGIN CERTIFICATE-----\n" + PEM_BODY + "\n-----END CERTIFICATE-----",
        "https://example.org:8080/a?b=c@d https://x.org/@user:name user@host:22",
        "eyJhbGciOiJIUzI1NiJ9 alone, and eyJhbGciOiJIUzI1NiJ9.short.x",
        "iVBORAKIAABCDEFGH12345678 inside base64",
        "AKIA1234",
        "sk_test_abcdefghijklmnop1234",
        "maxTokens=4096, 17 tokens left, token_count: 3",
        "é" * 50,
        "",
    ],
)
def test_harmless_text_is_the_same_object(text: str) -> None:
    """An agent that cannot read its own files is of no use."""
    assert text is OPEN.text(text)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("password", "password"),
        ("password", "PASSWORD"),
        ("passwd", "passwd"),
        ("passphrase", "pass_phrase"),
        ("secret", "secret"),
        ("client-secret", "clientSecret"),
        ("api-key", "api_key"),
        ("api-key", "apikey"),
        ("x-api-key", "X-Api-Key"),
        ("authorization", "Authorization"),
        ("proxy-authorization", "proxy-authorization"),
        ("cookie", "Cookie"),
        ("set-cookie", "Set-Cookie"),
        ("access-token", "accessToken"),
        ("refresh-token", "refresh_token"),
        ("id-token", "id_token"),
        ("auth-token", "auth.token"),
        ("bearer-token", "bearer token"),
        ("private-key", "privateKey"),
        ("secret-key", "SECRET_KEY"),
        ("session-token", "sessionToken"),
        ("token", "token"),
        ("credential", "credential"),
        ("credentials", "credentials"),
        ("api-key", "OPENAI_API_KEY"),
        ("password", "dbPassword"),
        ("access-token", "GithubAccessToken"),
        ("secret-access-key", "AWS_SECRET_ACCESS_KEY"),
    ],
)  # fmt: skip
def test_a_secret_argument_is_hidden_by_its_name(kind: str, name: str) -> None:
    """A password has no shape; only its name gives it away."""
    assert {name: f"[redacted:{kind}]", "order": "1042"} == OPEN.arguments({name: "x", "order": "1042"})


@pytest.mark.parametrize(
    "name",
    [
        "maxTokens",
        "max_tokens",
        "nextPageToken",
        "token_count",
        "tokenizer",
        "pageToken",
        "passwordless",
        "secretary",
        "minPasswordLength",
        "keyboard",
        "authorizationUrl",
        "cookieJar",
        "public_key",
        "",
        "é",
        "x" * 200,
    ],
)
def test_a_name_that_only_contains_a_word_is_not_hidden(name: str) -> None:
    """W49: the reference hid the limits, so that nobody could see why a run stopped."""
    value = {name: "1042", "n": {name: 4096}}

    assert value is OPEN.arguments(value)


@pytest.mark.parametrize("value", [None, True, False, "", [], {}, "[redacted:password]"])
def test_nothing_is_hidden_where_nothing_is(value: Any) -> None:
    """`password: null` is an answer to why a login failed."""
    arguments = {"password": value}

    assert arguments is OPEN.arguments(arguments)


@pytest.mark.parametrize("value", ["x", 1234, 1.5, ["x"], {"user": "x"}])
def test_all_that_a_secret_name_holds_is_hidden(value: Any) -> None:
    """A list of cookies is as secret as one."""
    assert {"a": [{"cookie": "[redacted:cookie]"}]} == OPEN.arguments({"a": [{"cookie": value}]})


def test_an_answer_is_not_hidden_by_names() -> None:
    """The agent must get what the tool returned."""
    answer = {"password": "x", "token": 5, "nested": [{"authorization": "Basic"}]}

    assert answer is OPEN.answer(answer)


@pytest.mark.parametrize("hide", [OPEN.arguments, OPEN.answer])
def test_a_shape_is_hidden_at_any_depth(hide: Any) -> None:
    """A secret under a neutral name passed the reference (W49)."""
    kind, secret = SECRETS[0]

    assert {"a": [1, {"b": f"key [redacted:{kind}]"}], "c": "d"} == hide({"a": [1, {"b": f"key {secret}"}], "c": "d"})


def test_the_callers_object_is_not_changed() -> None:
    """The tool runs with the true arguments (contract #238)."""
    value = {"a": [{"password": "x", "b": [SECRETS[0][1]]}]}
    before = copy.deepcopy(value)

    OPEN.arguments(value)

    assert before == value


def test_what_is_clean_inside_a_changed_value_is_shared() -> None:
    """Only the way to a secret is copied."""
    clean = {"big": ["text"]}

    assert clean is OPEN.arguments({"clean": clean, "password": "x"})["clean"]


def test_secrets_as_keys_are_hidden_and_keep_their_values() -> None:
    """Two tokens as keys become one marker; neither value may be lost."""
    (kind, one), (_, two), (_, three) = SECRETS[4:7]

    assert {f"[redacted:{kind}]": 1, "a": 2, f"[redacted:{kind}]#2": 3, f"[redacted:{kind}]#3": 4} == OPEN.answer(
        {one: 1, "a": 2, two: 3, three: 4}
    )


@pytest.mark.parametrize("name", ["signature", "thinkingSignature", "thoughtSignature", "encrypted_content"])
@pytest.mark.parametrize("redactor", [OPEN, OURS])
def test_a_signature_stays_byte_equal(name: str, redactor: Redactor) -> None:
    """The provider checks it later and refuses the whole conversation (C126)."""
    value = {"content": [{name: f"hunter2 {SECRETS[0][1]}"}]}

    assert (True, True) == (value is redactor.arguments(value), value is redactor.answer(value))


def test_only_a_text_is_a_signature() -> None:
    """An object under that name is no shelter for secrets."""
    kind, secret = SECRETS[0]

    assert {"signature": {"a": f"[redacted:{kind}]"}} == OPEN.arguments({"signature": {"a": secret}})


def test_configured_values_are_hidden_everywhere() -> None:
    """The user knows secrets that have no shape."""
    assert {"a": "[redacted:configured]!", "[redacted:configured]": ["[redacted:configured]"]} == OURS.answer(
        {"a": "hunter2!", "hunter2": ["hunter2"]}
    )


def test_a_short_configured_value_is_hidden_below_a_harmless_name() -> None:
    """It is shorter than every shape, and still a secret."""
    hidden = OURS.answer({"note": "hunter2", "count": 1, "hunter2": 2})

    assert {"note": "[redacted:configured]", "count": 1, "[redacted:configured]": 2} == hidden


def test_the_longest_configured_value_wins() -> None:
    """Half a secret must not be left over because it begins like another."""
    assert OURS.text("hunter2-long") == "[redacted:configured]"


def test_a_configured_word_of_a_marker_leaves_the_marker() -> None:
    """Markers are read by people and programs."""
    assert OURS.text("[redacted:password] password") == "[redacted:password] [redacted:configured]"


@pytest.mark.parametrize("value", ["", "12345"])
def test_a_short_configured_value_is_refused(value: str) -> None:
    """It would be found in every second text."""
    with pytest.raises(UsageError) as caught:
        Redactor(["hunter2", value])

    assert ("secret_too_short", 2) == (caught.value.code, caught.value.facts["number"])


def test_no_message_shows_a_configured_value() -> None:
    """An error that prints the secret is a leak of its own."""
    with pytest.raises(UsageError) as caught:
        Redactor(["hunter2-long", "oops!"])

    assert ("hunter2" in repr(OURS), "oops!" in json.dumps(caught.value.as_json())) == (False, False)


pieces = st.sampled_from([secret for _, secret in SECRETS] + ["hunter2", "://u:p@h", "Bearer a1b2c3d4e5f6a7b8c9"])
spiced = scalars | pieces | st.lists(pieces | st.text(max_size=5), max_size=4).map(" ".join)


@given(json_values(spiced))
def test_hiding_twice_changes_nothing_more(value: Any) -> None:
    """A replayed answer is redacted again; it must be the same bytes and the same object."""
    once = OURS.arguments(value)

    assert once is OURS.arguments(once)


@given(st.sampled_from([OPEN, OURS]), json_values(spiced))
def test_the_same_object_means_nothing_was_hidden(redactor: Redactor, value: Any) -> None:
    """A probe waits for the true arguments exactly when some were hidden."""
    hidden = redactor.answer(value)

    assert (hidden is value) == (repr(hidden) == repr(value))


@given(st.sampled_from([OPEN, OURS]), json_values(spiced))
def test_no_secret_is_left(redactor: Redactor, value: Any) -> None:
    """The one property that counts."""
    left = repr(redactor.answer(value))

    assert not [secret for _, secret in SECRETS if repr(secret)[1:-1] in left]


@pytest.mark.parametrize(
    "text",
    [
        "sk-" * 30_000,
        "eyJ" * 30_000,
        "eyJaaaa." * 9_000,
        "-----BEGIN PRIVATE KEY-----" * 4_000,
        "-----BEGIN PRIVATE KEY-----\n" + "Abc: b\n" * 9_000,
        "://a:" * 20_000,
        "://" + "a" * 90_000,
        "Bearer " * 9_000,
        "Bearer " + "a" * 90_000,
        "\\nsk-" * 20_000,
        "://a:" + "b:" * 40_000,
        "AIza" * 20_000,
    ],
)
def test_hostile_text_passes_unchanged(text: str) -> None:
    """Patterns that backtrack would need hours here, and the run with them."""
    assert text is OPEN.text(text)
