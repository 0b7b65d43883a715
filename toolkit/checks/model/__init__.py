"""A model of each session: its numbers, as its frames, decisions and events make them.

See docs/protocol.md §3.6, §4.9.

The model goes through all that a session and its links have recorded, and moves the numbers as the protocol says.
Each ``state`` record is compared with it, and each number that the session puts on the wire. Where a history
leaves open what happened (a takeover whose answer did not get out, a frame that broke its link) the model takes
over the numbers of the next ``state`` record.
"""
