"""Notebooks: where they are, how they get into a folder of the user's, and JupyterLab to work in them."""
