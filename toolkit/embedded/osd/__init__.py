"""The embedded OSD: objects in memory, and the operations on them."""
