"""What the commands of `clew session` tell, beside what `test_session` asks as it is typed."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.cli.shell import Done
from tests.runtime.test_migrating import TALK

Typed = Callable[..., Done]


def test_a_torn_end_of_another_program_is_damage_and_one_of_ours_is_mended_by_its_writer(
    typed: Typed, tmp_path: Path
) -> None:
    """Nobody of ours will write the old one again, so a person must know."""
    own = b'{"kind":"header","version":4,"id":"s","createdAt":1,"cwd":"/"}\n{"kind":"fa'
    paths = [tmp_path / "old.jsonl", tmp_path / "own.jsonl"]
    for path, data in zip(paths, (TALK[:-9], own), strict=True):
        path.write_bytes(data)

    done = [typed("session", "verify", str(path)) for path in paths]

    assert [(12, "DAMAGED"), (0, "OK")] == [(each.code, each.out.split()[0]) for each in done]
    assert "ends torn" in done[1].out


def test_a_transcript_is_told_in_words_and_as_json(typed: Typed, tmp_path: Path) -> None:
    """Calls without a result, double results, repeated usage; line and byte of each."""
    call = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {}}
    message = {"id": "m1", "role": "assistant", "content": [call], "usage": {"input_tokens": 1, "output_tokens": 5}}
    lines = [json.dumps({"type": "assistant", "uuid": f"u{n}", "sessionId": "x", "message": message}) for n in range(2)]
    path = tmp_path / "theirs.jsonl"
    path.write_text("\n".join(lines) + "\n")

    told = typed("session", "verify", str(path), "--json").json
    shown = typed("session", "verify", str(path)).out

    assert ("claude-code", 5, 1) == (told["program"], told["usage"]["outputTokens"], told["repeatedUsage"])
    assert ("OK  claude-code: 2 lines" in shown, "line 1, byte 0" in shown) == (True, True)


def test_an_empty_home_lists_nothing(typed: Typed) -> None:
    """And says how a session begins."""
    Path("quiet.py").write_text("def quiet(run, prompt):\n    return 1\n", "utf-8")
    assert 0 == typed("run", "quiet.py:quiet", "--run-id", "r1").code
    done = typed("session", "ls")

    assert (0, "", True) == (done.code, done.out, "--session" in done.err)
