"""Builds the images of the platform and those that only tests and demos need, measures them and pushes them."""
