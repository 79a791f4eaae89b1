"""AMD GPUs: canonical names, device ids, memory, and the inventory of a cluster (DI-174…DI-190)."""
