"""Every AIM custom resource as a pydantic model; the CRDs are generated from here."""
