"""RD: other transports."""

from toolkit.scenarios.scenario import Family

RD = Family("RD", "RDMA and other transports")
