"""Profiles: their hardware, those of an image, and those that sets derive (docs/spec/profiles.md)."""
