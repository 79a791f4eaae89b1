"""I/O of model-sync: registries and pull secrets."""
