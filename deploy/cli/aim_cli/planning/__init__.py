"""``aim plan``: what applying objects would do, decided by the services' own code over the cluster's present objects.

`gathering` reads that cache, `sandbox` lets the services decide in it, `report` tells what came of it. Nothing is
written: the API server is asked with a dry run what it would make of the objects.
"""
