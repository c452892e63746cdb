"""Linear-Gaussian state-space models: F(theta, w), by a Kalman filter and its adjoint."""
