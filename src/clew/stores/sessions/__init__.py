"""Session stores: conversations as files of lines, and in memory. What a line means is in `core.session`."""
