"""What the five services share."""
