"""Held-out labels: what was predicted for them, how well, and which of them look wrong."""
