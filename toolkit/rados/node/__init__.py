"""A client of a real cluster as a node: told what to do over its control channel, and writing its history."""
