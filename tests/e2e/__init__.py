"""End-to-end tests: a package, because their platform ends with the last of them that a process runs."""
