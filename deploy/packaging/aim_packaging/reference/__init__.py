"""The reference pages of the documentation, from what they describe (FW-651)."""
