"""Compares other implementations with ours, in turns, and builds Ceph's C++ messenger as such a program."""
