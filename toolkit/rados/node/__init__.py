"""A client of a real cluster as a node: takes commands over its control channel and writes its history."""
