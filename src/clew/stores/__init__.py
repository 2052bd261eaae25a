"""What is kept: protocols in `base`, and the stores that keep it in files and in memory. No meaning of a run here."""
