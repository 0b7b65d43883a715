"""Cluster specs: a YAML file that describes a cluster (docs/clusters.md).

::

    spec = read_spec("two-peers")
    spec.messengers()["a"].entity  # "osd.1"
"""

from toolkit.cluster.spec.files import parse_spec, read_spec, ready_made
from toolkit.cluster.spec.model import ClusterSpec

__all__ = ["ClusterSpec", "parse_spec", "read_spec", "ready_made"]
