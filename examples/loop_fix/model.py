"""What stands in for a language model: it reads a source and a test report, and proposes a new source. No network.

Its ideas are those of a hurried programmer: the first is wrong, the second is partial, the third is right. Set
MODEL_THINKS_S to let it think for so many seconds, as a real one does.
"""

import os
import time
from typing import Any

BODY = "    return [cents // ways] * ways\n"
ROUNDED = "    return [round(cents / ways)] * ways\n"
FIRST_TAKES_ALL = "    share, rest = divmod(cents, ways)\n    return [share + rest, *[share] * (ways - 1)]\n"
FAIR = "    share, rest = divmod(cents, ways)\n    return [share + (place < rest) for place in range(ways)]\n"
IDEAS = (BODY, ROUNDED, FIRST_TAKES_ALL, FAIR)


def propose(request: dict[str, Any]) -> dict[str, str]:
    """A new source for `request["source"]`, of which `request["report"]` says what fails, and the idea behind it."""
    time.sleep(float(os.environ.get("MODEL_THINKS_S", "0")))
    source, report = str(request["source"]), str(request["report"])
    if "test_shares_add_up" in report:
        old, new, why = (
            (BODY, ROUNDED, "round it") if BODY in source else (ROUNDED, FIRST_TAKES_ALL, "give the rest away")
        )
    else:
        old, new, why = FIRST_TAKES_ALL, FAIR, "give the rest away a cent at a time"
    return {"source": source.replace(old, new), "why": why}
