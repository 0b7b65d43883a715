"""Nodes of a scenario: their specs, and the application that runs on them."""

from toolkit.node.app import NodeApp, Writer
from toolkit.node.spec import NodeSpec, parse_entity

__all__ = ["NodeApp", "NodeSpec", "Writer", "parse_entity"]
