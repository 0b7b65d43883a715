"""The kernel's netem, driven by netlink."""
