"""Speed: `python -m benchmarks [NAME ...]`. Ratios are against a peer measured in the same run."""
