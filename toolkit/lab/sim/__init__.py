"""The ``sim`` backend: nodes on a virtual clock and a virtual network. A seed decides everything random."""
