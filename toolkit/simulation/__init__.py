"""Endpoints on a virtual clock and a virtual network: the same seed, the same run."""
