"""``msgrlab tell``: a node of a cluster does something."""

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from messenger.errors import LocalError


def tell(
    context: typer.Context,
    node: Annotated[str, typer.Argument(metavar="NODE", help="Who.")],
    verb: Annotated[
        str, typer.Argument(metavar="VERB", help="What: send, connect, mark_down; of a daemon, an admin command.")
    ],
    name: Annotated[str, typer.Option(help="Of the cluster; may be left out if one is up.")] = "",
) -> None:
    """Have a node do something, and print its answer as JSON: msgrlab tell a send b --count 3."""
    from toolkit.cluster.supervisor.client import ask, chosen

    words, named = parse_arguments(context.args)
    answer = ask(chosen(name), "command", node=node, verb=verb, words=words, args=named)
    if answer:
        print(json.dumps(answer, indent=2))


def parse_arguments(arguments: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """Words, and what options say; each value is JSON if it can be, else text.

    Raises:
        LocalError: an option without a name.
    """
    words: list[Any] = []
    named: dict[str, Any] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
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
