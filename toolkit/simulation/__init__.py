"""Random lives of nodes on a virtual clock and a virtual network: the same seed gives the same run."""
