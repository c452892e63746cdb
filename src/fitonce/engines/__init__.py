"""Engines: log-partition and marginals of potentials. They know nothing of models."""
