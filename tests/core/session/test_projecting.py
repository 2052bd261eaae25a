"""What a model is sent: each call with exactly one result, in order, and nothing stored is changed."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clew.core.session.projecting import OUTCOME_UNKNOWN, project
from clew.core.session.values import Projection, Said
from tests.core.session.scribe import answered, asked, said


def projected(*messages: dict[str, Any]) -> Projection:
    return project([Said(message) for message in messages])


def told(found: Projection) -> list[str]:
    """Each message in a word: who asks what, which call is answered how."""
    words = []
    for message in found.messages:
        match message["role"]:
            case "assistant":
                words.append("asks " + " ".join(block["id"] for block in message["content"] if "id" in block))
            case "toolResult":
                text = message["content"][0]["text"]
                words.append(f"{message['toolCallId']} {'unknown' if text == OUTCOME_UNKNOWN else text}")
            case role:
                words.append(role)
    return words


def test_an_interrupted_call_has_an_unknown_outcome() -> None:
    """C01, C02: without a result the provider refuses every later request; with a made-up one it pays twice."""
    found = projected(said("user"), asked("c1"), said("user", "go on"))

    assert ["user", "asks c1", "c1 unknown", "user"] == told(found)
    assert [("call_interrupted", "c1", 2)] == [(each.code, each.call_id, each.position) for each in found.repairs]
    assert (True, "pay") == (found.messages[2]["isError"], found.messages[2]["toolName"])


def test_results_stand_in_the_order_of_the_calls() -> None:
    """C10: whatever finished first."""
    names = [f"c{n}" for n in range(5)]
    found = projected(asked(*names), *(answered(name, name) for name in reversed(names)))

    assert ["asks c0 c1 c2 c3 c4", *(f"{name} {name}" for name in names)] == told(found)
    assert {"result_moved"} == {each.code for each in found.repairs}


def test_results_in_order_are_no_repair() -> None:
    """A sound conversation is sent as it is."""
    messages = [said("user"), asked("c1", "c2"), answered("c1"), answered("c2"), said("user")]
    found = projected(*messages)

    assert (tuple(messages), ()) == (found.messages, found.repairs)


def test_a_result_that_stands_elsewhere_is_put_behind_its_call() -> None:
    """A user's message between the two makes the provider refuse."""
    found = projected(asked("c1"), said("user"), answered("c1"))

    assert ["asks c1", "c1 done", "user"] == told(found)
    assert ["result_moved"] == [each.code for each in found.repairs]


def test_a_result_without_its_call_is_left_out() -> None:
    """C06, C09: a kept range may begin with one."""
    found = projected(said("compactionSummary"), answered("c0"), said("user"))

    assert (["compactionSummary", "user"], [("result_dropped", "c0", 1)]) == (
        told(found),
        [(each.code, each.call_id, each.position) for each in found.repairs],
    )


def test_the_first_result_of_a_call_is_the_one_that_was_told() -> None:
    """It said that it was paid; a later 'aborted' does not undo that."""
    found = projected(asked("c1"), answered("c1", "paid"), answered("c1", "aborted"))

    assert (["asks c1", "c1 paid"], ["result_dropped"]) == (told(found), [each.code for each in found.repairs])


def test_a_call_id_that_is_used_again_is_another_call() -> None:
    """Some providers count from zero in every turn."""
    found = projected(asked("c1"), answered("c1", "one"), asked("c1"), answered("c1", "two"), asked("c1"))

    assert ["asks c1", "c1 one", "asks c1", "c1 two", "asks c1", "c1 unknown"] == told(found)


def test_one_id_twice_in_a_message_has_two_results() -> None:
    """N calls, N results, whatever they are called."""
    found = projected(asked("c1", "c1"), answered("c1", "one"))

    assert ["asks c1 c1", "c1 one", "c1 unknown"] == told(found)


def test_half_an_emoji_is_replaced_but_never_in_a_signature() -> None:
    """A request is UTF-8; a signature that is changed by a byte is refused."""
    signed = said("assistant", [{"type": "thinking", "thinking": "h\ud83e", "thinkingSignature": "S\ud83e"}])
    found = projected(signed, said("user", {"\ud83e": 1}), said("user", "whole"))

    assert [{"type": "thinking", "thinking": "h\ufffd", "thinkingSignature": "S\ud83e"}] == found.messages[0]["content"]
    assert {"\ufffd": 1} == found.messages[1]["content"]
    assert [("surrogate_replaced", 0), ("surrogate_replaced", 1)] == [
        (each.code, each.position) for each in found.repairs
    ]


def test_what_the_user_kept_from_the_model_is_not_sent() -> None:
    """A command with a secret in it was run beside the conversation on purpose."""
    found = projected({"role": "bashExecution", "output": "x", "excludeFromContext": True}, said("user"))

    assert ["user"] == told(found)


CALLS = ["c1", "c2", "c3"]
messages = st.one_of(
    st.just(said("user")),
    st.lists(st.sampled_from(CALLS), max_size=3).map(lambda names: asked(*names)),
    st.sampled_from(CALLS).map(answered),
)


@given(st.lists(messages, max_size=14), st.integers(0, 14), st.integers(0, 14))
def test_any_cut_of_a_conversation_pairs_up(found: list[dict[str, Any]], begin: int, end: int) -> None:
    """C06: a repair must never add a result without its call directly before it. Whatever was cut, it pairs up."""
    before = copy.deepcopy(found)
    shown = projected(*found[begin:end])
    wanted: list[str] = []
    for message in shown.messages:
        if message["role"] == "toolResult":
            assert wanted.pop(0) == message["toolCallId"]
            continue
        assert [] == wanted
        if message["role"] == "assistant":
            wanted = [block["id"] for block in message["content"] if block["type"] == "toolCall"]

    assert [] == wanted
    assert before == found


@given(st.lists(messages, max_size=14))
def test_a_projection_projects_to_itself(found: list[dict[str, Any]]) -> None:
    """What was repaired needs no repair."""
    once = projected(*found)

    assert once.messages == projected(*once.messages).messages
    assert () == projected(*once.messages).repairs
