"""Fault injection: cut, hold and change frames between two parties; the language for all faults of a cluster."""
