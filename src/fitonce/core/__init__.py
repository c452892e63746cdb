"""Shared by all packages: numerics, parameters, outcomes, progress, where work runs. No models."""
