"""Engines: log-partition functions and marginals from arrays of potentials, independent of any model."""
