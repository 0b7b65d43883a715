"""Modules that programs in a virtual machine import: the guest imports them once, and forks for each program."""

import pyroute2

import toolkit.checks.invariants
import toolkit.cluster
import toolkit.cluster.backends.netns
import toolkit.cluster.backends.rdma
import toolkit.cluster.node
import toolkit.cluster.spec.files
import toolkit.faults.proxy
from messenger.messages.registry import PAYLOADS

__all__ = ["pyroute2", "toolkit"]

for _ in PAYLOADS.values():  # imported on demand
    pass
