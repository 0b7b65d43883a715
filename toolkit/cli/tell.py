"""``msgrlab tell``: have a node of a cluster carry out a command."""

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from messenger.errors import LocalError
from toolkit.cli.cluster_names import ClusterName, complete_nodes, take_name

CHECK_FAILED = 1


def tell(
    context: typer.Context,
    node: Annotated[str, typer.Argument(metavar="NODE", autocompletion=complete_nodes, help="Who.")],
    verb: Annotated[
        str, typer.Argument(metavar="VERB", help="What: send, connect, mark_down; of a daemon, an admin command.")
    ],
    name: ClusterName = "",
) -> int:
    """Have a node do something, and print its answer as JSON: msgrlab tell a send b --count 3.

    Exit 1 if `verify` finds objects that are not as they were written.
    """
    from toolkit.cluster.supervisor.client import ask, chosen

    arguments, name = take_name([node, verb, *context.args], name)
    if len(arguments) < 2:  # the words behind --name are its own
        raise LocalError("tell: give a NODE and a VERB: msgrlab tell a send b")
    node, verb, *rest = arguments
    words, named = parse_arguments(rest)
    answer = ask(chosen(name), "command", node=node, verb=verb, words=words, args=named)
    if answer:
        print(json.dumps(answer, indent=2))
    return CHECK_FAILED if verb == "verify" and answer.get("wrong") else 0


def parse_arguments(arguments: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """Words, and what options say; each value is JSON if it can be, else text.

    Options of msgrlab are not looked for behind ``--``, which is dropped.

    Raises:
        LocalError: an option without a name.
    """
    words: list[Any] = []
    named: dict[str, Any] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            continue
        if not word.startswith("--"):
            words.append(_value(word))
            continue
        option, equals, text = word[2:].partition("=")
        if not option:
            raise LocalError(f"tell: {word!r} is no option")
        if not equals:
            text = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
        named[option.replace("-", "_")] = _value(text)
    return words, named


def _value(text: str) -> Any:  # noqa: ANN401 - as JSON
    try:
        return json.loads(text)
    except ValueError:
        return text
