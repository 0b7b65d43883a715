"""Scenarios: short scripts over a small vocabulary that run on any backend."""
