"""What goes over the log: parts, subjects, versions of objects."""
