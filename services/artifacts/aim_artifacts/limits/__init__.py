"""Storage limits: who gets a volume, and who makes room for whom (AR-440…AR-491)."""
