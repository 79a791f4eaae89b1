"""Artifacts: brings model weights into shared volumes."""
