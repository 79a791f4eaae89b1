"""The shapes of Kubernetes objects: metadata, conditions, kinds, and how they are read and written."""
