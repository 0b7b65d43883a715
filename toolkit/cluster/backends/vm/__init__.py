"""The backend ``vm``: the hosts of a cluster in a micro-VM, whose kernel has netem and soft-RoCE."""
