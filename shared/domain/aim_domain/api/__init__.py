"""The AIM kinds as typed models, and those of KServe and the Gateway API as far as they are read."""
