"""Embedded control plane and simulated cluster, for demos and tests only."""
