"""The aim command."""
