"""The writing side: a part of Kubernetes, published completely and in order."""
