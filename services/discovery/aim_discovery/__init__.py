"""Discovery: inspects images, creates templates and finds their runtime profiles."""
