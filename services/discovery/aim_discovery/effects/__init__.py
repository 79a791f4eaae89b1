"""I/O that decisions ask for; results become facts."""
