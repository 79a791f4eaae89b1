"""Kinds of Kubernetes and its extensions, as far as they are read; everything else in them is kept."""
