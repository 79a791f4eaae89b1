"""What the five services share."""

__version__ = "0.1.0"
