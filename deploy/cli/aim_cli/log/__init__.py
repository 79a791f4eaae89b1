"""The event log, as a command reads it: stories, pasts, decisions taken again, slices in files."""
