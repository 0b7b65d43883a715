"""Releases of Ceph against our messenger: every release by what is spoken, how it authenticates, and which side is whose.

A cell is a release, a wire, a kind of authentication, a role and a case (``table.py``), with the reasons why some
cannot be. ``targets.py`` and ``peer.py`` have the two sides of each role on a cluster, ``cases.py`` what is done and
which evidence is required, ``evidence.py`` reads it from captures, ``runner.py`` runs cells, one cluster for all
cells that share one.
"""
