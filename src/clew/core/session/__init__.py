"""What a conversation is: files of sessions (v1 to v4) as values. Bytes in, bytes out; no file is touched here.

How the parts meet, for whoever keeps sessions:

    reader = SessionReader(expect=session_id)         # reading: raises at the first line that cannot stand there
    for piece in store.read(session_id): reader.feed(piece)
    state = reader.finish()                           # state: offsets and small facts, no contents
    read = lambda offset, size: …                     # so many bytes of the same file from there
    shown = view(state, read, lane="main")            # viewing: messages, level, model, tools, title, labels, totals
    judgement = judge(state)                          # judging: open operations, orphan calls, double results
    projection = project(shown.messages)              # projecting: what a model may be sent
    lines = migrate(state, read, sha256=…, backup_file=…)      # migrating: v1, v2, v3 to v4a, a line at a time
    check_migrated(state, shown, view_of_the_new_one)          # and whether it shows the same
    batch = compose(state, drafts, at_ms=…)           # writing: lines of ours, judged before they are written
    reader.feed(batch.data)                           # and read once they are kept
"""
