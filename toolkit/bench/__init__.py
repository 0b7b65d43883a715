"""What the messenger costs, beside a plain socket in the same run."""
