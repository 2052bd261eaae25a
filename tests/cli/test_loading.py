import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.cli.loading import apart, load_agent, load_recorded, recorded_agent
from clew.errors import UsageError
from tests.loaded import taken_away

TEXT = """
import clew
import sibling_of_loading

@clew.agent(name="declared")
def declared(run, prompt): ...

def plain(run, prompt): ...

def inner(run, prompt): ...
renamed = clew.agent(config={"a": 1})(inner)

class Crew:
    @staticmethod
    def chief(run, prompt): ...

number = 7
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with a file of agents; what loading leaves in this process is taken away."""
    (tmp_path / "crew_of_loading.py").write_text(TEXT, "utf-8")
    (tmp_path / "sibling_of_loading.py").touch()
    with taken_away(tmp_path):
        yield tmp_path


@pytest.mark.parametrize(
    ("name", "expected"),
    [("declared", "declared"), ("plain", "plain"), ("renamed", "inner"), ("inner", "inner"), ("Crew.chief", "chief")],
)
def test_an_agent_is_found_by_its_name_in_its_file(folder: Path, name: str, expected: str) -> None:
    """Declared, plain, or as the qualified name that a journal recorded."""
    agent = load_agent(f"{folder / 'crew_of_loading.py'}:{name}")

    assert expected == agent.name


def test_a_recorded_function_finds_its_declaration(folder: Path) -> None:
    """The journal records the function; its tools and configuration stand in the declaration."""
    agent = load_agent(f"{folder / 'crew_of_loading.py'}:inner")

    assert {"a": 1} == agent.config


def test_a_file_named_like_a_module_does_not_take_its_place(folder: Path) -> None:
    """`json.py` beside the agent would otherwise break everything that is imported later."""
    before = sys.modules["json"]
    (folder / "json.py").write_text("def agent(run, prompt): ...", "utf-8")

    agent = load_agent(f"{folder / 'json.py'}:agent")

    assert ("agent", before) == (agent.name, sys.modules["json"])


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("crew_of_loading.py", "invalid_agent_path"),
        (":x", "invalid_agent_path"),
        ("crew_of_loading.py:", "invalid_agent_path"),
        ("nowhere.py:x", "agent_not_found"),
        ("crew_of_loading.py:nobody", "agent_not_found"),
        ("crew_of_loading.py:number", "agent_not_found"),
        ("notes.txt:x", "agent_not_found"),
    ],
)
def test_what_is_not_there_is_wrong_usage(
    folder: Path, monkeypatch: pytest.MonkeyPatch, target: str, code: str
) -> None:
    """Nothing was started; the next step says what there is."""
    monkeypatch.chdir(folder)
    (folder / "notes.txt").touch()

    with pytest.raises(UsageError) as caught:
        load_agent(target)

    assert code == caught.value.code


def test_the_agents_that_there_are_are_named(folder: Path) -> None:
    """A typing mistake is mended without opening the file."""
    with pytest.raises(UsageError) as caught:
        load_agent(f"{folder / 'crew_of_loading.py'}:setle")

    assert "It has: declared, renamed." == caught.value.next


def test_a_file_alone_is_told_which_agent_it_has(folder: Path) -> None:
    """The first thing that a new user types is the name of the file."""
    target = str(folder / "crew_of_loading.py")

    with pytest.raises(UsageError) as caught:
        load_agent(target)

    assert f"Write FILE:AGENT, as in {target}:declared." == caught.value.next


@pytest.mark.parametrize(
    "text",
    ["import nothing_of_that_name", "raise SystemExit(3)", "def x(:", "class Own(BaseException): ...\nraise Own"],
)
def test_a_file_that_cannot_be_loaded_keeps_its_cause(folder: Path, text: str) -> None:
    """`-vv` shows where it stumbled; a file that exits does not end the command as if all were well."""
    (folder / "broken_of_loading.py").write_text(text, "utf-8")

    with pytest.raises(UsageError, match="cannot be loaded") as caught:
        load_agent(f"{folder / 'broken_of_loading.py'}:x")

    assert ("agent_not_loadable", True) == (caught.value.code, caught.value.__cause__ is not None)
    assert "broken_of_loading" not in sys.modules


def test_a_library_that_is_not_there_is_asked_for_where_clew_runs(folder: Path) -> None:
    """The agent's libraries are often installed in another environment than the command."""
    (folder / "lacking_of_loading.py").write_text("import nothing_of_that_name", "utf-8")

    with pytest.raises(UsageError, match="No module named 'nothing_of_that_name'") as caught:
        load_agent(f"{folder / 'lacking_of_loading.py'}:x")

    assert f"Install it for {sys.executable}, which clew runs in, or mend the file." == caught.value.next


STARTS = """
import clew

@clew.tool(effect="external")
def pay(order):
    raise AssertionError("paid by whoever looked")

@clew.agent(tools=[pay])
def settle(run, prompt):
    return run.call(pay, order="1042")

try:
    clew.Home("{home}").run_sync(settle, "go")
except ValueError:
    pass
"""


def test_a_file_that_starts_a_run_when_it_is_loaded_starts_none(folder: Path) -> None:
    """Each `clew resume` of such a script, its dry run too, would do all of it once more."""
    (folder / "starts_of_loading.py").write_text(STARTS.replace("{home}", str(folder / ".clew")), "utf-8")

    with pytest.raises(UsageError, match=r"line 13.*it starts a run while it is loaded") as caught:
        load_agent(f"{folder / 'starts_of_loading.py'}:settle")

    assert ("agent_not_loadable", False) == (caught.value.code, (folder / ".clew").exists())
    assert caught.value.next.startswith('Put what starts runs under `if __name__ == "__main__":`')


def test_a_wrong_declaration_says_how_it_is_mended(folder: Path) -> None:
    """The author of a tool is told what the declaration lacks, not to look for it with a traceback."""
    (folder / "wrong_of_loading.py").write_text("import clew\n@clew.tool(effect='some')\ndef pay(): ...", "utf-8")

    with pytest.raises(UsageError, match="its effect cannot stand") as caught:
        load_agent(f"{folder / 'wrong_of_loading.py'}:pay")

    assert "Correct the declaration; see the README's part on tools." == caught.value.next


def test_a_recorded_agent_is_below_the_home_s_parent(tmp_path: Path) -> None:
    """Wherever the project was moved to meanwhile."""
    target = recorded_agent("examples/agent.py:settle", tmp_path, "k3f")

    assert f"{tmp_path.resolve() / 'examples' / 'agent.py'}:settle" == target


@pytest.mark.parametrize("recorded", ["moved.py:declared", "crew_of_loading.py:nobody"])
def test_a_recorded_agent_that_is_gone_is_asked_for(folder: Path, recorded: str) -> None:
    """It was moved or renamed; that the run names it is no help, `--agent` is."""
    with pytest.raises(UsageError) as caught:
        load_recorded(recorded, folder, "k3f")

    assert caught.value.next.startswith("Say where it is now: `clew resume k3f --agent FILE:AGENT`.")


@pytest.mark.parametrize(
    "recorded", ["", "agent.py:outer.<locals>.agent", "/elsewhere/agent.py:a", "../agent.py:a", "agent"]
)
def test_a_journal_cannot_have_any_file_loaded(tmp_path: Path, recorded: str) -> None:
    """A home may come from somebody else; what it names outside of its project is not run unasked."""
    with pytest.raises(UsageError) as caught:
        recorded_agent(recorded, tmp_path, "k3f")

    assert ("agent_not_recorded", "Say where it is: `clew resume k3f --agent FILE:AGENT`.") == (
        caught.value.code, caught.value.next,
    )  # fmt: skip


def test_what_an_agent_brought_from_its_folder_is_forgotten_afterwards(folder: Path) -> None:
    """The next agent's folder may have modules of the same names."""
    paths = list(sys.path)
    with apart():
        load_agent(f"{folder}/crew_of_loading.py:declared")
        inside = {"crew_of_loading", "sibling_of_loading"} <= set(sys.modules)

    assert (True, paths) == (inside, sys.path)
    assert not {"crew_of_loading", "sibling_of_loading"} & set(sys.modules)


def test_a_package_without_a_file_of_its_own_is_forgotten_and_what_is_no_module_stays(folder: Path) -> None:
    """Libraries put all sorts of things in the place of a module."""
    (folder / "parts_of_loading").mkdir()
    odd = "class Odd:\n    __path__ = 7\nsys.modules['odd_of_loading'] = Odd()\n"
    (folder / "crew_of_loading.py").write_text(f"import sys\nimport parts_of_loading\n{odd}{TEXT}", "utf-8")
    with apart():
        load_agent(f"{folder}/crew_of_loading.py:declared")

    assert (False, True) == ("parts_of_loading" in sys.modules, "odd_of_loading" in sys.modules)


def test_what_is_installed_stays(folder: Path) -> None:
    """A library with a compiled part cannot be loaded twice in one process."""
    installed = folder / ".venv" / "lib" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "library_of_loading.py").touch()
    (folder / "crew_of_loading.py").write_text(
        f"import sys; sys.path.append({str(installed)!r})\nimport library_of_loading\n{TEXT}", "utf-8"
    )
    with apart():
        load_agent(f"{folder}/crew_of_loading.py:declared")

    assert "library_of_loading" in sys.modules
