"""Ports of loopback that nobody else is given."""

import socket


def reserved_socket(host: str, port: int = 0) -> socket.socket:
    """A bound socket that does not listen: it keeps a port, and whoever sets SO_REUSEADDR may bind it as well.

    Args:
        host: an address of this machine.
        port: which port; a free one unless given.

    Raises:
        OSError: the port is in use.
    """
    reserved = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        reserved.bind((host, port))
    except (OSError, OverflowError):
        reserved.close()
        raise
    # Only now: with it, the kernel would hand out a port that somebody else has reserved in this way.
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return reserved
