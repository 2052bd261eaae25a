"""A process that runs an agent under OpenTelemetry's real SDK and dies in its second payment. Started, never imported.

    dying.py run|resume SPANS

Each span is written to the file SPANS as it ends, so that what a SIGKILL left can be read.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

import clew
from clew.integrations.otel import Telemetry

RUN = "r1"
SECRET = "hunter2-and-more"


class ToFile(SpanExporter):
    """Writes each span as a line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with self.path.open("a", encoding="utf-8") as lines:
            for span in spans:
                said = {"name": span.name, "status": span.status.status_code.name, **dict(span.attributes or {})}
                lines.write(json.dumps(said) + "\n")
        return SpanExportResult.SUCCESS


def found(call: clew.Call) -> clew.Verdict:
    """The bank never forgets."""
    books = Path("books").read_text("utf-8") if Path("books").exists() else ""
    return clew.Happened(f"T-{call.arguments['order']}") if call.key in books else clew.DidNotHappen()


@clew.tool(effect="external", probe=found, in_doubt_s=0)
def pay(call: clew.Call, order: str, password: str) -> str:
    """Pays, and dies behind the second payment of the first process."""
    with Path("books").open("a", encoding="utf-8") as books:
        books.write(call.key + "\n")
    if order == "2" and sys.argv[1] == "run":
        os.kill(os.getpid(), signal.SIGKILL)
    return f"T-{order}"


@clew.agent(tools=[pay])
def settle(run: clew.SyncRun, prompt: Any) -> list[str]:
    """Asks, and pays three orders."""
    run.turn(lambda request: clew.Turn("pay them", clew.Usage(input_tokens=7, output_tokens=3)), "which?")
    return [run.call(pay, order=order, password=SECRET) for order in ("1", "2", "3")]


def main() -> int:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ToFile(Path(sys.argv[2]))))
    home = clew.Home(".clew", takeover="operator")
    telemetry = Telemetry(tracer_provider=provider, home=home)
    if sys.argv[1] == "run":
        return home.run_sync(settle, "go", run_id=RUN, on_record=telemetry).exit_code
    return home.resume_sync(RUN, settle, on_record=telemetry).exit_code


if __name__ == "__main__":
    sys.exit(main())
