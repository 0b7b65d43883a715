"""A RADOS client as a node: it takes commands over its control channel and writes history records."""
