"""Modules that programs in a virtual machine import: the guest imports them once, and forks for each program."""

import pyroute2

import toolkit.checks.invariants
import toolkit.cluster
import toolkit.cluster.backends.netns
import toolkit.cluster.backends.rdma
import toolkit.cluster.node
import toolkit.cluster.spec.files
import toolkit.faults.proxy

__all__ = ["pyroute2", "toolkit"]
