"""The one Kubernetes client."""
