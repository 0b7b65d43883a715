"""Nodes, links and faults as short words (:class:`toolkit.lab.lab.Lab`), and the backends that make them real."""
