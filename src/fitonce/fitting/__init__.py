"""From starting points to a certified minimum, with H and J there."""
