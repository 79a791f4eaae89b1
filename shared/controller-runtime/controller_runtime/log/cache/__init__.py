"""The reading side: what one service knows of the cluster, and whether it is fresh."""
