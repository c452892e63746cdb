"""What notebooks show of fits and results: the verdict, a small table and a small picture, in HTML."""
