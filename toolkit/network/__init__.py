"""The network between hosts, its faults and impairments."""
