"""Linear-Gaussian state-space models: parameters to matrices."""
