"""I/O that decisions of the artifacts service need."""
