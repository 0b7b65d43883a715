"""The process that keeps a cluster up, and how to speak with it."""
