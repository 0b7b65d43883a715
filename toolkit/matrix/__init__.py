"""Releases of Ceph against our messenger, by what is spoken, how it authenticates, and whose side is which.

A cell is a release, a wire, a kind of authentication, a role and a case (``table.py``), with the reasons why some
cannot be. ``ground.py`` has the cluster that cells share and one cell's trial on it, ``peer.py`` an OSD of ours,
``cases.py`` what is done and which evidence is required, ``evidence.py`` reads it from captures.
``runner.py`` runs cells, all of one setup on one cluster, ``sharing.py`` on the workers of a Dask cluster;
``results.py`` has the kept results as a table.
"""
