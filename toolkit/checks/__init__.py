"""What happened in a run, and whether it was right: the history format and the invariants over it."""
