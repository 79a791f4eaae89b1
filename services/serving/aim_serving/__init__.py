"""Serving: turns AIMServices into KServe InferenceServices."""
