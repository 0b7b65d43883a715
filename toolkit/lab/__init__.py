"""The verbs of scenarios (:class:`toolkit.lab.lab.Lab`): nodes, links and faults, and the backends for them."""
