"""Resolution and merging of runtime configs."""
