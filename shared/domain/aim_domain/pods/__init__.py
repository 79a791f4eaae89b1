"""What pods say about themselves beyond what the watch shows: how it is asked for, read and looked up."""
