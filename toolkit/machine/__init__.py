"""Changes that clusters make to this machine: journalled before they are made, labelled, and undone."""
