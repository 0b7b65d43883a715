"""Cluster specs: what a cluster is, as YAML (docs/clusters.md)."""

from toolkit.cluster.spec.model import ClusterSpec
from toolkit.cluster.spec.reading import parse_spec, read_spec, ready_made

__all__ = ["ClusterSpec", "parse_spec", "read_spec", "ready_made"]
