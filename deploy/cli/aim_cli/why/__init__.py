"""``aim why``: from an object to what it waits for (FW-551…FW-554)."""
