"""Generates what installs the platform on a cluster, from what the services declare."""
