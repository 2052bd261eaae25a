"""The meaning of a run: values in, values out. No clock, no chance, no disk, no thread, no logging."""
