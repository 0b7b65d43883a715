"""Nodes of a scenario: what they are, and the application that runs on them."""

from toolkit.node.app import NodeApp, Writer
from toolkit.node.spec import NodeSpec, parse_entity

__all__ = ["NodeApp", "NodeSpec", "Writer", "parse_entity"]
