"""Making the profiles of one GPU usable on another one (section 20)."""
