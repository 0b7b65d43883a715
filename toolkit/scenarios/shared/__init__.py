"""What scenarios of several families have in common."""
