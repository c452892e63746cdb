"""The hidden chain of an HMM: its parameters, prior and log-potentials, and their derivatives."""
