"""Benchmarks of the messenger: rates, CPU time and memory, compared with a plain socket in the same run."""
