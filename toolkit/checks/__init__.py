"""The history of a run and its checks: the record format, and the invariants judged over it."""
