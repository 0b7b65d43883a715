"""Interoperability of our messenger with releases of Ceph, by wire protocol, authentication and role.

A cell is a release, a wire, a kind of authentication, a role and a case (``table.py``, with the reasons why some
cells are impossible). ``ground.py`` has the cluster that cells share and the trial of one cell, ``peer.py`` an OSD
of ours, ``cases.py`` the steps of each case and the evidence that it requires, ``evidence.py`` reads the evidence
from captures. ``runner.py`` runs cells, all of one setup on one cluster, ``shared_run.py`` on the workers of a
Dask cluster; ``results.py`` returns the kept results as a table.
"""
