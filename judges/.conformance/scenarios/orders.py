"""The episode of `judges.custody`, by its name."""

from pathlib import Path

from conformance_harness.scenario import Scenario

import judges

scenario = Scenario(
    name="orders",
    entrypoint="judges.custody:episode",
    scenario_id="orders",
    source=str(Path(judges.__file__).resolve().parents[1]),
    capabilities=("redeliver", "crash_after_checkpoint", "withhold_approvals"),
)
