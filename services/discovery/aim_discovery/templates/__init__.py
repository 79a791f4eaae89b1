"""Templates: model resolution, GPU availability, discovery, results."""
