"""``aim console``: the platform as pages, read from the event log (FW-630…FW-636)."""
