"""Probes for the optional capabilities of this machine, and the commands that add the missing ones."""
