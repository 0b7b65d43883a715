"""The cases, one file per area."""
