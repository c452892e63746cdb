"""The Hessian of many sequences, split over them: H is a sum, so that any split gives the same."""

from __future__ import annotations

import jax
import numpy as np

from fitonce import louis
from fitonce.parallel import Parallel, Workers, groups
from fitonce.posteriors import Sample


def split_hessian(
    parallel: Parallel, sample: Sample, theta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """- sum_n coefficient_n d2 log p(x_n) (D, D) and slopes (N, D), wherever `parallel` says."""
    if parallel == "devices":
        return louis.likelihood_hessian(sample, theta, devices=len(jax.devices()))
    if not isinstance(parallel, Workers):
        return louis.likelihood_hessian(sample, theta)
    members = groups(sample.lengths, parallel.n)
    tasks = [(sample.some(group), theta) for group in members]
    hessian, slopes = np.zeros((len(theta), len(theta))), np.empty((len(sample.grid), len(theta)))
    parts = parallel.run(louis.likelihood_hessian, tasks)
    for group, (part, rows) in zip(members, parts, strict=True):
        hessian += part
        slopes[group] = rows
    return hessian, slopes
