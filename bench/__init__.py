"""What clew costs, as ratios and counts: `make bench`. Not a test, for speed is neither red nor green."""
