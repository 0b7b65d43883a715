"""Captures of real daemons of four releases of Ceph, and the command that makes them: ``python -m captures``."""
