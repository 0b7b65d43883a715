"""Reliable queue pairs of RDMA in a capture of RoCEv2: packets in, the byte stream of each link out."""
