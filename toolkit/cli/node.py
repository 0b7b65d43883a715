"""``msgrlab node``: add nodes to a running cluster and remove them; without a sub-command, be a node."""

import json
from typing import Annotated

import typer

from toolkit.cli.cluster_names import ClusterName, complete_nodes

app = typer.Typer(
    help="Add nodes to a running cluster, remove them, and capture their packets.", invoke_without_command=True
)

NodeName = Annotated[str, typer.Argument(metavar="NODE", autocompletion=complete_nodes, help="Name of the node.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.callback()
def node(context: typer.Context) -> None:
    """Without a sub-command, be a node: read a spec and commands as JSON lines, write answers and history."""
    if context.invoked_subcommand is None:
        from toolkit.cluster.node import main

        main()


@app.command()
def add(
    node_name: Annotated[
        str, typer.Argument(metavar="NODE", help="Name of the new node: a-z, then up to 7 of a-z 0-9.")
    ],
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE...", help="Values as in a spec: entity=osd.3 options.ms_max_backoff=2."),
    ] = None,
    name: ClusterName = "",
    as_json: AsJson = False,
) -> None:
    """Add a msgrlab messenger to a running cluster; when this returns, all other nodes have its address."""
    from toolkit.cluster.spec_lookup import values_of
    from toolkit.cluster.supervisor.client import ask, chosen

    wanted = values_of(values or [], f"node {node_name}")
    added = ask(chosen(name), "add_node", name=node_name, values=wanted)
    print(json.dumps(added) if as_json else f"{node_name}  {added['kind']}  {added['address']}")


@app.command()
def remove(node_name: NodeName, name: ClusterName = "", as_json: AsJson = False) -> None:
    """Shut down a msgrlab messenger and remove its address from the other nodes."""
    from toolkit.cluster.supervisor.client import ask, chosen

    removed = ask(chosen(name), "remove_node", name=node_name)
    if as_json:
        print(json.dumps(removed))
        return
    for problem in removed["problems"]:
        print(f"not removed: {problem}")


@app.command()
def capture(
    node_name: NodeName,
    file: Annotated[
        str, typer.Option(metavar="FILE", help="File in the cluster's directory; by default NODE.pcapng.")
    ] = "",
    stop: Annotated[bool, typer.Option("--stop", help="End the running capture.")] = False,
    name: ClusterName = "",
    as_json: AsJson = False,
) -> None:
    """Start capturing the packets of a node; the capture ends with --stop or with the cluster."""
    from toolkit.cluster.supervisor.client import ask, chosen

    lease = chosen(name)
    if stop:
        taken = ask(lease, "stop_capture", node=node_name)
        words = f"{taken['file']}: {taken['packets']} packets, {taken['dropped']} dropped"
    else:
        taken = ask(lease, "start_capture", node=node_name, file=file)
        words = taken["file"]
    print(json.dumps(taken) if as_json else words)
