"""Sequence charts and other pictures of histories, and the HTML report."""
