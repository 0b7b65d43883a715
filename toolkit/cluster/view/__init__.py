"""A cluster as a live view in a notebook: what it is doing, and buttons for faults."""

from toolkit.cluster.view.view import ClusterView

__all__ = ["ClusterView"]
