"""Names and constants of hidden chains."""

COEFFICIENTS = "transition_coefficients"
CHAIN = ("initial", "transition", COEFFICIENTS, "end", "dwell", "dwell_size")  # all parameters
SIZE_PRIOR = (2.0, 0.1)  # shape and rate, of durations as of counts
