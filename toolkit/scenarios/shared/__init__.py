"""What scenarios of several families share."""
