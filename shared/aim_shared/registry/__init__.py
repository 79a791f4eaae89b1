"""OCI registry client shared by model-sync and discovery."""
