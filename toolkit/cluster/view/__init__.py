"""A live view of a cluster for notebooks: its state, and buttons for faults."""

from toolkit.cluster.view.view import ClusterView

__all__ = ["ClusterView"]
