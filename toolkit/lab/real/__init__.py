"""Labs on real sockets: on loopback, in network namespaces and in containers."""
