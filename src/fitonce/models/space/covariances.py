"""Whether matrices are covariances, and in words why they are not."""

from __future__ import annotations

import numpy as np

_ROUNDED = 1e-8  # of correlations, and much more than rounding
_NOUGHT = 1e-14  # variances so small beside the largest entry of a matrix may be rounding alone


def are_covariances(matrices: np.ndarray) -> np.ndarray:
    """(...) whether (..., n, n) are finite, symmetric and without negative eigenvalues, but for
    rounding: each by its own correlations, so that no variance hides behind a larger one."""
    finite = np.isfinite(matrices).all((-1, -2))
    if finite.all() and _are_plainly(matrices):
        return finite
    scaled = _correlations(np.where(finite[..., None, None], matrices, 0.0))
    return finite & (_apart(scaled) <= _ROUNDED) & ~_are_indefinite(scaled)


def _are_plainly(matrices: np.ndarray) -> bool:
    """Whether all are symmetric and positive definite, which is fast to tell and usual."""
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        return False
    return np.array_equal(matrices, np.swapaxes(matrices, -1, -2))


def fault_of(matrices: np.ndarray) -> str:
    """What the first of (T, n, n) that is no covariance has instead, such as "eigenvalue -1"; empty if
    all are covariances."""
    wrong = np.flatnonzero(~are_covariances(matrices))
    if not wrong.size:
        return ""
    first = matrices[wrong[0]]
    where = f" at step {wrong[0]}" if len(matrices) > 1 else ""
    if not np.isfinite(first).all():
        return f"{first[~np.isfinite(first)][0]}{where}"
    scaled = _correlations(first)
    if _apart(scaled) > _ROUNDED:
        return f"an asymmetric one{where}"
    lowest = np.linalg.eigvalsh(first)[0]
    if lowest < 0:
        return f"eigenvalue {lowest:g}{where}"
    return f"eigenvalue {np.linalg.eigvalsh(scaled)[0]:g} of correlations{where}"


def _correlations(matrices: np.ndarray) -> np.ndarray:
    """(..., n, n) divided by roots of the diagonal, or of what is nought where that is larger."""
    variances = np.einsum("...ii->...i", matrices)
    nought = _NOUGHT * np.abs(matrices).max((-1, -2), initial=0.0)[..., None]
    scales = np.maximum(variances, nought)
    scales = np.where(scales > 0, scales, 1.0)
    roots = np.sqrt(scales)
    found = matrices / roots[..., :, None] / roots[..., None, :]
    rounding = np.abs(variances) <= nought
    np.einsum("...ii->...i", found)[...] = (
        np.where(rounding, np.maximum(variances, 0.0), variances) / scales
    )
    return found


def _apart(matrices: np.ndarray) -> np.ndarray:
    """(...) how far (..., n, n) are from symmetric."""
    return np.abs(matrices - np.swapaxes(matrices, -1, -2)).max((-1, -2), initial=0.0)


def _are_indefinite(matrices: np.ndarray) -> np.ndarray:
    """(...) whether (..., n, n) have eigenvalues that are negative beyond rounding."""
    diagonal = np.einsum("...ii->...i", matrices)
    unit = np.eye(matrices.shape[-1])
    if not (matrices * (1.0 - unit)).any():
        return (diagonal < -_ROUNDED).any(-1)
    try:
        np.linalg.cholesky(matrices + _ROUNDED * unit)  # reads the lower half; fast where all are fine
    except np.linalg.LinAlgError:
        return np.linalg.eigvalsh(matrices).min(-1, initial=0.0) < -_ROUNDED
    return np.zeros(diagonal.shape[:-1], bool)
