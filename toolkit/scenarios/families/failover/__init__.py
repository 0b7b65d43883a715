"""More rows of HS, LY, LC, LS, LP, SQ, RS, SE and V1: the crimson table and the interception grid."""

from toolkit.scenarios.families.failover import clients, grid, handshake, races, resets, secure, servers

MODULES = (handshake, clients, servers, races, resets, secure, grid)
"""Each adds to the families it names."""
