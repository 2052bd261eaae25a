"""The code on our pages runs as it stands there: a reader copies it before he reads on."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from clew import toolkit
from tests.house.tree import ROOT

MY_BANK = '''
"""A stand-in for what the reader already calls; it keeps its books in a file."""
from collections import namedtuple
from pathlib import Path

Transfer = namedtuple("Transfer", "id reference")
BOOKS = Path("books")


def pay(order, cents, idempotency_key):
    with BOOKS.open("a") as books:
        books.write(f"{idempotency_key}\\n")
    return Transfer(f"T-{order}", idempotency_key)


def search(reference):
    return Transfer("T-found", reference) if BOOKS.exists() and reference in BOOKS.read_text() else None
'''


def blocks(page: str) -> list[str]:
    """The Python on a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)


def run_here(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A Python process in a folder of its own."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


def test_the_thirty_lines_of_the_readme_run(tmp_path: Path) -> None:
    """The first thing that a new user tries."""
    (tmp_path / "my_bank.py").write_text(MY_BANK, "utf-8")
    (tmp_path / "agent.py").write_text(blocks("README.md")[0], "utf-8")

    done = run_here(tmp_path, "agent.py")

    assert ("", 0) == (done.stderr, done.returncode)
    assert done.stdout.splitlines()[:2] == ["1042 T-1042", "1043 T-1043"]


def test_the_thirty_lines_run_by_the_command(tmp_path: Path) -> None:
    """The second of the two commands that the README names."""
    (tmp_path / "my_bank.py").write_text(MY_BANK, "utf-8")
    (tmp_path / "agent.py").write_text(blocks("README.md")[0], "utf-8")

    done = run_here(tmp_path, "-m", "clew.cli", "run", "agent.py:settle", "settle today's orders")

    assert (0, "settled") == (done.returncode, done.stdout.splitlines()[-1])
    assert len((tmp_path / "books").read_text("utf-8").splitlines()) == 2


def test_the_loops_on_the_page_on_loops_run(tmp_path: Path) -> None:
    """They claim how they end, so they must end so."""
    ends = []
    for number, block in enumerate(blocks("docs/loop.md")):
        (tmp_path / f"loop_{number}.py").write_text(block, "utf-8")
        done = run_here(tmp_path, f"loop_{number}.py")
        ends.append((done.stderr, done.returncode))

    assert [("", 0), ("", 0)] == ends


def the_agents_test() -> str:
    """The test of an agent that the page on testing shows."""
    [shown] = [block for block in blocks("docs/testing.md") if "crash_points" in block]
    return shown


def test_the_agents_test_on_the_page_on_testing_passes(tmp_path: Path) -> None:
    """A reader puts their own agent in place of ours, so ours must be right."""
    (tmp_path / "test_settle.py").write_text(the_agents_test(), "utf-8")

    done = run_here(tmp_path, "-c", "import test_settle; test_settle.test_settle_survives_every_crash()")

    assert ("", 0) == (done.stderr, done.returncode)


def test_the_agents_test_on_the_page_on_testing_can_fail(tmp_path: Path) -> None:
    """The message that the page shows is the one that its probe's lie brings about."""
    lying = the_agents_test().replace("any(uuid == call.uuid for uuid, _ in self.books)", "False")
    (tmp_path / "test_settle.py").write_text(lying, "utf-8")

    done = run_here(tmp_path, "-c", "import test_settle; test_settle.test_settle_survives_every_crash()")

    page = (ROOT / "docs" / "testing.md").read_text("utf-8")
    shown = re.search(r"```\n(AssertionError: .*?)```", page, re.DOTALL)
    assert shown is not None
    assert shown.group(1) in done.stderr


def test_the_stores_test_on_the_page_on_testing_runs(tmp_path: Path) -> None:
    """A reader copies it and puts their own store in; the same lines are run through all cases in `tests/testing`."""
    [shown] = [block for block in blocks("docs/testing.md") if "RUN_STORE_CASES" in block]
    store = (ROOT / "tests" / "testing" / "sqlite_store.py").read_text("utf-8")
    (tmp_path / "my_store.py").write_text(store.replace("SqliteRunStore", "MyRunStore"), "utf-8")
    (tmp_path / "test_my_store.py").write_text(shown, "utf-8")

    done = run_here(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "birth or process", ".")

    stranger = (ROOT / "tests" / "testing" / "stranger.py").read_text("utf-8")
    assert shown == stranger.replace("tests.testing.sqlite_store", "my_store").replace("SqliteRunStore", "MyRunStore")
    assert (0, []) == (done.returncode, re.findall("failed|skipped|error", done.stdout))


@pytest.mark.parametrize("name", ["completed", "settled", "second_attempt", "paused"])
def test_the_check_on_the_format_page_passes_a_journal(tmp_path: Path, name: str) -> None:
    """A stranger can check our files with what any machine has."""
    journal = ROOT / "tests" / "journals" / f"{name}.jsonl"
    run_id = journal.read_text("utf-8").split('"runId":"')[1].split('"')[0]
    (tmp_path / f"{run_id}.jsonl").write_bytes(journal.read_bytes())
    (tmp_path / "check.py").write_text(blocks("docs/format.md")[0], "utf-8")

    done = run_here(tmp_path, "check.py", f"{run_id}.jsonl")

    assert ("", 0) == (done.stderr, done.returncode)


def test_the_check_on_the_format_page_sees_one_changed_byte(tmp_path: Path) -> None:
    """A check that passes everything would be worse than none."""
    journal = (ROOT / "tests" / "journals" / "completed.jsonl").read_bytes()
    (tmp_path / "01JD4KQ7Z8.jsonl").write_bytes(journal.replace(b'"cents":4200', b'"cents":4201', 1))
    (tmp_path / "check.py").write_text(blocks("docs/format.md")[0], "utf-8")

    done = run_here(tmp_path, "check.py", "01JD4KQ7Z8.jsonl")

    assert done.returncode == 1


def test_the_caller_on_the_watching_page_is_told_of_every_record(tmp_path: Path) -> None:
    """Whoever wants to show progress copies it."""
    (tmp_path / "watch.py").write_text(blocks("docs/watching.md")[0], "utf-8")

    done = run_here(tmp_path, "watch.py")

    assert ("", 0) == (done.stderr, done.returncode)
    assert ["1 start", "6 finish"] == [done.stdout.splitlines()[0], done.stdout.splitlines()[-1]]


def test_the_format_on_the_watching_page_names_run_and_call(tmp_path: Path) -> None:
    """The line of a tool that knows nothing of clew has both."""
    (tmp_path / "log.py").write_text(blocks("docs/watching.md")[1], "utf-8")

    done = run_here(tmp_path, "log.py")

    line = next(line for line in done.stderr.splitlines() if "asking the bank" in line)
    assert 0 == done.returncode
    assert re.fullmatch(r"INFO run=[a-z0-9]+-\d{6} call=c1#1 asking the bank for 1042", line)


def test_the_agent_on_the_page_on_agents_is_told_what_the_page_says(tmp_path: Path) -> None:
    """A value, a failure with its value and a denial: whoever writes an agent copies how each is met."""
    (tmp_path / "refunds.py").write_text(blocks("docs/agents.md")[0], "utf-8")

    done = run_here(tmp_path, "refunds.py")

    assert ("", 0) == (done.stderr, done.returncode)
    assert [
        "R-1042",
        "failed: the card is expired, {'card': 'expired'}",
        "denied: refunds above 100.00 are for a person",
    ] == ast.literal_eval(done.stdout)


def test_the_home_on_the_page_on_extensions_says_what_it_must(tmp_path: Path) -> None:
    """A reader copies a guard from it; one that did not deny would look exactly the same."""
    (tmp_path / "guarded.py").write_text(blocks("docs/extensions.md")[0], "utf-8")

    done = run_here(tmp_path, "guarded.py")

    assert ("", 0) == (done.stderr, done.returncode)
    assert [
        "pay committed True",
        "extension payment-limits: payments above 100 need the other desk",
        "payment-limits before-tool succeeded 1 False",
        "notes after-tool succeeded 1 False",
        "payment-limits before-tool succeeded 1 True",
    ] == done.stdout.splitlines()


def test_the_run_on_the_page_on_extensions_is_told_to_opentelemetry(tmp_path: Path) -> None:
    """With an SDK around it, as the reader's program has one."""
    sdk = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
"""
    print_them = "print(*(span.name for span in spans.get_finished_spans()), sep='|')"
    (tmp_path / "spans.py").write_text(f"{sdk}\n{blocks('docs/extensions.md')[1]}\n{print_them}\n", "utf-8")

    done = run_here(tmp_path, "spans.py")

    assert ("", "chat|invoke_agent agent\n") == (done.stderr, done.stdout)


def test_the_family_on_the_page_on_children_does_what_the_page_says(tmp_path: Path) -> None:
    """Outputs, whose child a run is, and what a parent that waits is told: all of it is copied."""
    (tmp_path / "family.py").write_text(blocks("docs/children.md")[0], "utf-8")

    done = run_here(tmp_path, "family.py")

    told = done.stdout.splitlines()
    assert ("", 0) == (done.stderr, done.returncode)
    assert ["['T-1042', 'T-1043']", *["completed settle november"] * 2, "child_paused 22 agent_error"] == [
        told[0], *sorted(told[1:3]), told[-1],
    ]  # fmt: skip


def test_the_calls_on_the_page_of_tools_are_those_of_the_toolkit() -> None:
    """Names and what is taken when left out are read there and typed."""
    page = (ROOT / "docs" / "tools.md").read_text("utf-8")
    found = {name: re.search(rf"^\| `{name}\((.*?)\)`", page, re.MULTILINE) for name in toolkit.__all__}

    shown = {name: call[1] for name, call in found.items() if call is not None}

    assert {name: given(getattr(toolkit, name)) for name in toolkit.__all__} == shown


def given(tool: clew.Tool) -> str:
    """A tool's parameters without the call, as they are written on a page."""
    parameters = [each for each in tool.signature.parameters.values() if each.name != "call"]
    return ", ".join(
        each.name if each.default is each.empty else f"{each.name}={each.default!r}".replace("'", '"')
        for each in parameters
    )


def test_the_agent_on_the_approvals_page_waits_and_goes_on(tmp_path: Path) -> None:
    """Whoever wants a person to be asked copies it."""
    (tmp_path / "approve.py").write_text(blocks("docs/approvals.md")[0], "utf-8")

    done = run_here(tmp_path, "approve.py")

    assert ("", 0, ["approval_required ['pay-1']", "T-1042"]) == (
        done.stderr,
        done.returncode,
        done.stdout.splitlines(),
    )


def test_the_list_on_the_approvals_page_is_what_is_printed(tmp_path: Path) -> None:
    """What is shown there is what a reader looks for on the screen."""
    shown = (ROOT / "docs" / "approvals.md").read_text("utf-8").split("$ clew ls\n")[1].split("```")[0]
    agent = blocks("docs/approvals.md")[0].partition("\n    home.approve")[0]
    (tmp_path / "approve.py").write_text(agent, "utf-8")
    run_here(tmp_path, "approve.py")

    done = run_here(tmp_path, "-m", "clew.cli", "ls")

    assert re.sub(r"\d\d:\d\d(:\d\d)?", "T", shown) == re.sub(r"\d\d:\d\d(:\d\d)?", "T", done.stdout)


def test_the_example_of_the_page_on_keys_prints_what_it_says(tmp_path: Path) -> None:
    """Two runs, one payment: the reader sees it before they believe it."""
    [shown] = blocks("docs/keys.md")
    (tmp_path / "keys.py").write_text(shown, "utf-8")
    text = (ROOT / "docs" / "keys.md").read_text("utf-8")
    expected = text.partition(shown)[2].split("```\n")[2]

    done = run_here(tmp_path, "keys.py")

    assert ("", 0) == (done.stderr, done.returncode)
    assert expected == done.stdout


@pytest.mark.parametrize(("page", "number"), [("checkpoints", 0), ("sessions", 0)])
def test_what_a_page_says_is_printed_is_printed(tmp_path: Path, page: str, number: int) -> None:
    """A reader compares it with their own screen, so it must be what the lines above it print."""
    text, shown = (ROOT / "docs" / f"{page}.md").read_text("utf-8"), blocks(f"docs/{page}.md")[number]
    (tmp_path / "page.py").write_text(shown, "utf-8")

    done = run_here(tmp_path, "page.py")

    assert ("", text.partition(shown)[2].split("```\n")[2]) == (done.stderr, done.stdout)


def test_the_command_goes_on_with_the_conversation_of_the_page(tmp_path: Path) -> None:
    """The same file is started by hand and loaded by the command, which must not start it once more."""
    (tmp_path / "chat.py").write_text(blocks("docs/sessions.md")[0], "utf-8")

    done = run_here(tmp_path, "-m", "clew.cli", "run", "chat.py:chat", "hello", "--session", "talk")

    assert (0, "answer 1\n") == (done.returncode, done.stdout)


@pytest.mark.parametrize(
    ("page", "number", "printed"),
    [("limits", 0, "1020 True\n"), ("sessions", 1, "['compactionSummary', 'user'] 6\n")],
)
def test_the_lines_of_a_page_run(tmp_path: Path, page: str, number: int, printed: str) -> None:
    """Whatever a reader can copy whole must run whole."""
    (tmp_path / "page.py").write_text(blocks(f"docs/{page}.md")[number], "utf-8")

    done = run_here(tmp_path, "page.py")

    assert ("", printed) == (done.stderr, done.stdout)


def test_the_report_on_the_page_on_artifacts_is_read_back(tmp_path: Path) -> None:
    """Kept by one name, read by the same, as the page says below the lines that are copied."""
    read = "home = clew.Home()\nhome.run_sync(report, 'go', run_id='r')\nprint(home.artifact('r', 'totals.csv').read())"
    (tmp_path / "report.py").write_text(f"{blocks('docs/artifacts.md')[0]}\n\n{read}\n", "utf-8")

    done = run_here(tmp_path, "report.py")

    assert ("", "b'order,cents\\n1042,4200\\n'\n") == (done.stderr, done.stdout)


def test_every_page_is_led_to_from_the_readme() -> None:
    """A page that nothing leads to is read by nobody; a link that leads nowhere ends the reading."""
    todo, seen = [ROOT / "README.md"], set[Path]()
    while todo:
        page = todo.pop()
        links = re.findall(r"\]\(([^):#]+\.md)[^)]*\)", page.read_text("utf-8"))
        found = {(page.parent / link).resolve() for link in links} - seen
        seen |= found
        todo += [each for each in found if each.exists()]

    pages = {path.resolve() for folder in ("docs", "examples") for path in (ROOT / folder).rglob("*.md")}
    assert (set(), []) == (pages - seen, [page for page in seen if not page.exists()])
