"""Measures what a link does to packets, on the kernel's netem and on the wire."""
