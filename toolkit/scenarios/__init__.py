"""Scenarios: short scripts over the verbs of a lab, which run on any backend.

Each family has a folder; ``shared`` has what several families use, ``crimson`` the failover table of crimson. A
family imports no other family, so that a scenario runs without importing the rest.
"""
