"""A client of MDS daemons: sessions and requests that survive broken links and failovers."""
