"""The process that imports an agent for `clew certify` and is copied for each of its lives. Started by that alone.

python -P -m clew.cli.certifier FILE:AGENT DESCRIPTOR
"""

import socket
import sys
from collections.abc import Sequence

from clew.certify.server import serve
from clew.cli.loading import load_agent


def main(arguments: Sequence[str]) -> int:
    """Serve until the other end of the descriptor is closed."""
    target, descriptor = arguments
    return serve(lambda: load_agent(target), socket.socket(fileno=int(descriptor)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
