"""Notebooks: their location, copies for the user, and the JupyterLab command to open them."""
