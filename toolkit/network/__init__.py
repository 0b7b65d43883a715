"""The network between hosts, and what can be done to it."""
