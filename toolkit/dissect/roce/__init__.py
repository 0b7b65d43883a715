"""Reliable RDMA queue pairs in a capture of RoCEv2: packets in, byte streams of each link out."""
