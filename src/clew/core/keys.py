"""Business keys: what one is, and what a claim on one is worth by its run's journal. Keeps none."""

import re
from typing import Any, Final, Literal

import msgspec

from clew.core.calls import CallState, Illegal
from clew.core.canon import Json, canonical, fingerprint_text
from clew.core.redact import Redactor
from clew.core.state import RunState
from clew.errors import UsageError

KEY_BYTES: Final = 1024
"""So long a business key may be, in UTF-8."""

Word = Literal["free", "starting", "open", "committed", "happened", "given_up", "unreadable"]

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_HIDDEN: Final = "[redacted:key]"


class BusinessKey(msgspec.Struct, frozen=True, gc=False):
    """What one execution of an effect is for. `sha256` is of the key's text (64 hex), `text` redacted for people."""

    sha256: str
    text: str

    def as_json(self) -> dict[str, str]:
        """The member `businessKey` of a `tool_call`."""
        return {"sha256": self.sha256, "text": self.text}


class Claim(msgspec.Struct, frozen=True, rename="camel"):
    """That one attempt of one call is about to start for a business key, as it is published before it starts.

    `nonce` is that of the leg that claims: no other leg may start on this claim.
    """

    schema_version: Literal[1]
    tool: str
    sha256: str
    text: str
    run_id: str
    step_id: str
    call_id: str
    idempotency_key: str
    attempt: int
    nonce: str
    at: str


class Standing(msgspec.Struct, frozen=True):
    """What a claim is worth. `free` alone lets another call start; `starting`: the leg that claimed may still start.

    `call` is what the journal knows of the claim's call, None where it knows nothing.
    """

    word: Word
    call: CallState | None = None

    @property
    def holds(self) -> bool:
        """Must every other call with this key be refused?"""
        return self.word != "free"


def key_text(value: Json) -> str:
    """The text that a key counts by: a text as it is, any other JSON value by its canonical form, so 7 is "7".

    Raises:
        UsageError: `invalid_business_key` when it is null, blank, or longer than 1024 bytes.
    """
    if value is None or value in ([], {}):
        raise invalid_key(f"it is {'null' if value is None else 'empty'}")
    text = value if type(value) is str else canonical(value).decode()
    if not text.strip():
        raise invalid_key("it is blank")
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > KEY_BYTES:
        raise invalid_key(f"it has {size} bytes, more than {KEY_BYTES}")
    return text


def business_key(value: Json, arguments: Json, redactor: Redactor) -> BusinessKey:
    """The key of a call: a digest to match by, and its text with secrets hidden.

    Args:
        value: What the tool's key function gave, as JSON.
        arguments: The call's arguments, not redacted: what is hidden in them is hidden in the key as well.
        redactor: The agent's.

    Raises:
        UsageError: `invalid_business_key`.
    """
    text = key_text(value)
    hidden = _hidden_leaves(arguments, redactor.arguments(arguments))
    shown = _HIDDEN if any(leaf in text for leaf in hidden) else redactor.text(text)
    return BusinessKey(fingerprint_text(text), shown)


def _hidden_leaves(plain: Json, shown: Json) -> list[str]:
    """The texts of all values that redaction replaced."""
    if plain == shown:
        return []
    if type(plain) is dict and type(shown) is dict:
        # Side by side: redaction keeps the order and the number of the members, not always their names.
        plain, shown = list(plain.values()), list(shown.values())
    if type(plain) is list and type(shown) is list:
        return [leaf for one, two in zip(plain, shown, strict=True) for leaf in _hidden_leaves(one, two)]
    return _leaves(plain)


def _leaves(value: Json) -> list[str]:
    """The texts of a hidden value; none of it may show in a key."""
    if type(value) is dict:
        value = list(value.values())
    if type(value) is list:
        return [leaf for each in value for leaf in _leaves(each)]
    text = value if type(value) is str else canonical(value).decode()
    return [text] if text else []


def recorded_key(event: dict[str, Any]) -> BusinessKey | None:
    """The key of a recorded `tool_call`, None where it has none. `Illegal` when it is not what is written."""
    if "businessKey" not in event:
        return None
    said = event["businessKey"]
    if type(said) is dict and said.keys() == {"sha256", "text"} and all(type(each) is str for each in said.values()):
        found = BusinessKey(**said)
        if _DIGEST.fullmatch(found.sha256):
            return found
    raise Illegal("its businessKey is no digest with a text")


def word_of(call: CallState) -> Word:
    """What the last word on a call says of its key.

    Free only where it is proved that nothing happened: nothing started, or the last attempt was settled so. What a
    tool returned is a fact, a `Failed` too: it did its work, so the key stays taken.
    """
    review = call.settled_by
    if call.status in ("", "not_started") or (review is not None and review.outcome == "did_not_happen"):
        return "free"
    if review is not None:
        return "happened" if review.outcome == "happened" else "given_up"
    return "committed" if call.status == "committed" else "open"


def judge(state: RunState, claim: Claim) -> Standing:
    """What a claim is worth by the journal of its run, which is the truth.

    Every start is preceded by a claim of its own, for its attempt and by its leg. So a claim whose start is not
    recorded is worth nothing once its leg is over: a later leg has to claim anew.

    Source:
        DESIGN §5 "5. authorised"; promises 2, 5 and 7.
    """
    call = state.calls.get(claim.step_id)
    if call is not None and (call.key, call.tool) != (claim.idempotency_key, claim.tool):
        return Standing("unreadable")
    if call is not None and (call.attempt >= claim.attempt or word_of(call) != "free"):
        return Standing(word_of(call), call)
    if all(leg.nonce != claim.nonce for leg in state.legs):
        return Standing("unreadable", call)
    unclosed = state.unclosed_leg
    over = unclosed is None or unclosed.nonce != claim.nonce
    return Standing("free" if over else "starting", call)


def invalid_key(why: str, tool: str = "") -> UsageError:
    """What a key function gave is no key."""
    whose = f"the business key of tool {tool!r}" if tool else "the business key"
    return UsageError(
        f"{whose} cannot be used: {why}",
        code="invalid_business_key",
        next=f"Let the key function return a text, or a JSON value, of 1 to {KEY_BYTES} bytes; nothing was started.",
        why=why,
        **({"tool": tool} if tool else {}),
    )
