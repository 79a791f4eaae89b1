"""The cluster, as a command reads it: objects by kind and name, and in which state they are."""
