"""What a conversation is: files of sessions (v1 to v4) as values. Bytes in, bytes out; no file is touched here.

How the parts meet, for who keeps sessions:

    reader = SessionReader(expect=session_id)     # reading: lines, dialects, one tree; raises at the first bad line
    for piece in store.read(session_id): reader.feed(piece)
    state = reader.finish()                       # offsets and small facts, no contents
    read = lambda offset, size: …                 # so many bytes of the same file from there
    shown = view(state, read, lane="main")        # viewing: messages, level, model, tools, title, labels, totals
    judgement = judge(state)                      # judging: open operations, orphan calls, double results, warnings
    projection = project(shown.messages)          # projecting: what a model may be sent
    for line in migrate(state, read, …): …        # migrating: v1, v2, v3 to v4a, a line at a time
    same_view(shown, after)                       # and whether it says the same
    batch = compose(state, drafts, at_ms=…)       # writing: lines of ours; `state.take(...)` when they are kept
"""
