"""The history of a run: its record format, and the invariants that check it."""
