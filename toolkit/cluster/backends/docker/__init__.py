"""The ``docker`` backend: a container per node, on networks of their own; and ``swarm``, on overlay networks."""
