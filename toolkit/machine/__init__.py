"""What clusters change on this machine: written down before it is done, labelled, and undone."""
