"""For tests, ours and a stranger's: a set clock, crash points, and later the conformance kits."""
