"""What eyes see: a run as a row, as an account, as a timeline, and what to do next. Words only; no I/O, no colour."""
