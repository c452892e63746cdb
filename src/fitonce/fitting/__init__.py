"""From starts to a certified minimum, and H there."""
