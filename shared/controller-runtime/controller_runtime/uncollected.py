"""Importing this, before anything else, keeps the collector of garbage in circles away until the service runs.

A tenth of what imports take is its search, again and again, for garbage that they hardly make. `run_service` lets it
go on.
"""

import gc

gc.disable()
