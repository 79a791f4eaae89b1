"""I/O that decisions of serving ask for."""
