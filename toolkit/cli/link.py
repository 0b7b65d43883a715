"""``msgrlab link``: impairments and proxies between the nodes of a running cluster."""

import json
from typing import Annotated, Any

import typer

from toolkit.cli.cluster_names import ClusterName, complete_nodes

app = typer.Typer(help="Impair links between nodes of a running cluster, or proxy them.", no_args_is_help=True)

From = Annotated[
    str, typer.Argument(metavar="FROM", autocompletion=complete_nodes, help="Node that sends the packets.")
]
To = Annotated[
    str, typer.Argument(metavar="TO", autocompletion=complete_nodes, help="Node that receives the packets.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command()
def add(
    sender: From,
    receiver: To,
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE...", help="Impairments as in a spec: delay_ms=20 both_ways=true."),
    ] = None,
    name: ClusterName = "",
    as_json: AsJson = False,
) -> None:
    """Impair packets from one node to another while the cluster is up; `msgrlab fault mend` does not undo it."""
    from toolkit.cluster.spec_lookup import values_of

    wanted = values_of(values or [], f"link {sender} {receiver}")
    _ask(name, "add_link", as_json=as_json, sender=sender, receiver=receiver, values=wanted)


@app.command()
def remove(sender: From, receiver: To, name: ClusterName = "", as_json: AsJson = False) -> None:
    """Stop impairing packets from one node to another."""
    _ask(name, "remove_link", as_json=as_json, sender=sender, receiver=receiver)


@app.command()
def proxy(
    dialler: Annotated[
        str, typer.Argument(metavar="FROM", autocompletion=complete_nodes, help="Node that opens connections.")
    ],
    dialled: Annotated[
        str, typer.Argument(metavar="TO", autocompletion=complete_nodes, help="Node that accepts them.")
    ],
    rule: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help="Rule as WHERE: WHAT (docs/proxy.md). Repeatable.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the proxy.")] = False,
    name: ClusterName = "",
    as_json: AsJson = False,
) -> None:
    """Put a frame-aware proxy between two nodes; new connections from FROM to TO pass through it."""
    about: dict[str, Any] = {"sender": dialler, "receiver": dialled}
    if remove:
        _ask(name, "remove_proxy", as_json=as_json, **about)
    else:
        _ask(name, "add_proxy", as_json=as_json, **about, script=rule or [])


def _ask(name: str, do: str, *, as_json: bool, **args: Any) -> None:  # noqa: ANN401 - as JSON
    from toolkit.cluster.supervisor.client import ask, chosen

    answer = ask(chosen(name), do, **args)
    if as_json:
        print(json.dumps(answer))
