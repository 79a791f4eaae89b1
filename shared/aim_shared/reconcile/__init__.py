"""The reconcile engine: queue, plan, executor, conditions."""
