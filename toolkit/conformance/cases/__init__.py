"""The cases, a file per area."""
