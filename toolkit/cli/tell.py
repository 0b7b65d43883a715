"""``msgrlab tell``: run a command in a node of a cluster."""

import json
from collections.abc import Sequence
from typing import Annotated

import typer

from messenger.errors import LocalError
from toolkit.cli.cluster_names import ClusterName, complete_nodes, take_name

CHECK_FAILED = 1


def tell(
    context: typer.Context,
    node: Annotated[
        str, typer.Argument(metavar="NODE", autocompletion=complete_nodes, help="The node that runs the command.")
    ],
    verb: Annotated[
        str,
        typer.Argument(
            metavar="VERB",
            help="The command, with its arguments: send, connect, mark_down; for a Ceph daemon, an admin command.",
        ),
    ],
    name: ClusterName = "",
) -> int:
    """Run a command in a node and print its answer as JSON: msgrlab tell a send b --count 3.

    Exit 1 if `verify` finds objects whose content differs from what was written.
    """
    from toolkit.cluster.supervisor.client import ask, chosen

    arguments, name = take_name([node, verb, *context.args], name)
    if len(arguments) < 2:  # the words behind --name are its own
        raise LocalError("tell: NODE and VERB are needed, as in: msgrlab tell a send b")
    node, verb, *rest = arguments
    words, named = split_arguments(rest)
    answer = ask(chosen(name), "command", node=node, verb=verb, words=words, args=named)
    if answer:
        print(json.dumps(answer, indent=2))
    return CHECK_FAILED if verb == "verify" and answer.get("wrong") else 0


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Split arguments into positional words and options.

    ``--`` is dropped. An option without a value is ``true``::

        split_arguments(["b", "--count", "3", "--data=x"]) == (["b"], {"count": "3", "data": "x"})

    Raises:
        LocalError: an option has no name, as in ``--=3``.
    """
    words: list[str] = []
    named: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            continue
        if not word.startswith("--"):
            words.append(word)
            continue
        option, equals, text = word[2:].partition("=")
        if not option:
            raise LocalError(f"tell: {word!r} is an option without a name; write it as in --count 3 or --count=3")
        if not equals:
            text = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
        named[option.replace("-", "_")] = text
    return words, named
