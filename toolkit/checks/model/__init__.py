"""A model of each session: its numbers, computed from its frames, decisions and events.

See docs/protocol.md §3.6, §4.9.

The model reads all records of a session and its links in order, and changes the numbers as the protocol demands.
It compares each ``state`` record, and each number that the session writes, with its own. Where a history does not
show what happened (a takeover whose answer was not written, a frame that broke its link), the model takes the
numbers from the next ``state`` record.
"""
