"""One file for each outside framework, imported by whoever uses it and by nobody else."""
