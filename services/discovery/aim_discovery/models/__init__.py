"""Models: image inspection, creation of templates, status."""
