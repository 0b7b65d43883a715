"""What this machine can do, found out by trying, and what would add the rest."""
