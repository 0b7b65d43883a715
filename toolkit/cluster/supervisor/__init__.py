"""The supervisor: the process that keeps a cluster up, and its client."""
