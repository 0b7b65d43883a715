"""``msgrlab node``: one node of a cluster, told what to do over its standard input."""


def node() -> None:
    """Be a node: read a spec and commands as JSON lines, write answers and history as JSON lines."""
    from toolkit.cluster.node import main

    main()
