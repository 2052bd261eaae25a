"""What a tool may say of the paths that it changes, and what it may not."""

from typing import Any

import pytest

import clew


def put(call: clew.Call, path: str, to: str = "b") -> None:
    """Nothing."""


async def later(path: str) -> list[str]:
    return [path]


def test_paths_come_from_arguments_by_name() -> None:
    """Those that were left out have their defaults."""
    tool = clew.Tool(put, effect="workspace", paths=("path", "to"))

    assert tool.paths is not None
    assert (["a", "b"], ["c", "d", "b"]) == (tool.paths.of({"path": "a"}), tool.paths.of({"path": ["c", "d"]}))


def test_an_argument_that_is_none_names_no_path() -> None:
    """A tool may have a second file, or none."""
    tool = clew.Tool(put, effect="workspace", paths=("path", "to"))

    assert tool.paths is not None
    assert ["a"] == tool.paths.of({"path": "a", "to": None})


def test_any_effect_may_change_the_whole_workspace() -> None:
    """A command does what it likes, and is kept by that capability."""
    tool = clew.Tool(put, effect="process", paths=clew.WORKSPACE)

    assert tool.paths is not None
    assert (True, "required", "clew.WORKSPACE") == (
        tool.paths.everywhere, tool.capability.checkpoint, repr(clew.WORKSPACE),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("declared", "checkpoint"),
    [
        ({"effect": "workspace"}, "unsupported"),
        ({"effect": "workspace", "paths": ("path",)}, "required"),
        ({"effect": "external"}, "none"),
        ({"effect": "external", "paths": ("path",)}, "required"),
        ({"effect": "process"}, "unsupported"),
        ({"effect": "none"}, "none"),
    ],
)
def test_its_capability_says_whether_it_can_be_taken_back(declared: dict[str, Any], checkpoint: str) -> None:
    """#140: an effect on files is never said to need no checkpoint; one without paths cannot have any."""
    assert checkpoint == clew.Tool(put, **declared).capability.checkpoint


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"paths": "path"}, "paths is a tuple of names"),
        ({"paths": 7}, "paths is a tuple of names"),
        ({"paths": ()}, "paths is empty"),
        ({"paths": ("file",)}, "paths names 'file', which is no argument of it"),
        ({"paths": ("call",)}, "paths names 'call', which is no argument of it"),
        ({"paths": later}, "paths and expects are plain functions"),
        ({"paths": ("path",), "expects": later}, "paths and expects are plain functions"),
        ({"paths": ("path",), "expects": "x"}, "paths and expects are plain functions"),
        ({"paths": clew.WORKSPACE, "expects": len}, "expects needs paths that are declared one by one"),
        ({"expects": len}, "not which they are (paths)"),
        ({"effect": "none", "paths": ("path",)}, "it changes nothing (effect none), so it has no paths to keep"),
    ],
)
def test_a_declaration_that_contradicts_itself_is_refused(declared: dict[str, Any], words: str) -> None:
    """It is found when the tool is written, not when it first changes something."""
    with pytest.raises(clew.UsageError) as caught:
        clew.Tool(put, **{"effect": "workspace", **declared})

    assert ("invalid_tool", True) == (caught.value.code, words in caught.value.message)


def test_the_decorator_takes_them_as_well() -> None:
    """It is how tools are declared."""
    tool = clew.tool(effect="workspace", paths=("path",), expects=lambda before, path, to: {})(put)

    assert tool.paths is not None
    assert callable(tool.paths.expects)
