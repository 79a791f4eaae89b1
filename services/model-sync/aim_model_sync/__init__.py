"""Model-sync: follows container registries and creates AIMClusterModels."""
