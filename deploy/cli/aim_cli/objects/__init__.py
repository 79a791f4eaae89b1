"""Commands about objects."""
