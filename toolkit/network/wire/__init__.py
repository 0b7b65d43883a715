"""A switch in user space, for links with impairments where the kernel has no netem."""
