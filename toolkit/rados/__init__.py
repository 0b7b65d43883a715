"""A RADOS client over the messenger: placement, OSD sessions, objects."""
