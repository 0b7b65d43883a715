"""A file system's client towards MDS daemons: its sessions, its requests, and what they survive."""
