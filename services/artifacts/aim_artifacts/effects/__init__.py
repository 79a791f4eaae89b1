"""I/O that decisions of artifacts ask for."""
