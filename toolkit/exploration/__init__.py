"""Exhaustive exploration of small scopes: two nodes, a few messages, a few faults, every schedule."""
