"""What does this address speak: banners, features, modes, and for monitors the cluster behind it."""
