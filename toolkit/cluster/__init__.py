"""Real Ceph daemons to talk to."""
