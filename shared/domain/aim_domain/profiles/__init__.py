"""Profiles: which one is meant, how one is derived from another, and how its engine runs (docs/spec/profiles.md)."""
