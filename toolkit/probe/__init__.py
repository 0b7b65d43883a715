"""Probes an address: its protocol, features and connection modes, and for monitors the cluster behind it."""
