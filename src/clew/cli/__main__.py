"""`python -m clew.cli`: the command, without its script."""

from clew.cli import main

raise SystemExit(main())
