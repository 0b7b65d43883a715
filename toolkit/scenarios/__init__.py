"""Scenarios: short scripts over the verbs of a lab that run on any backend.

A folder per family; ``shared`` has what several families use, ``crimson`` the failover table of crimson. A family
imports no other family, so that one scenario is run without the rest.
"""
