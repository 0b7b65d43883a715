"""The ``docker`` backend, a container per node on private networks; and ``swarm``, on overlay networks."""
