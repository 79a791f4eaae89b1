"""What happened: former versions, decisions, results of effects."""
