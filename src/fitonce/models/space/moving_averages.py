"""Roots of moving averages: of one on the unit circle, and of those that are the same process.

theta(L) = 1 + theta_1 L + ... has the factors 1 - r L. With 1 / conj(r) in place of r, and the variance
of the noise times |r|^2, the process is the same, so that the likelihood is even in log |r| at |r| = 1:
a unit root is an ordinary stationary point, if coefficients may lie on both sides of it.
"""

from __future__ import annotations

import numpy as np

_ON = 1e-5  # how far the modulus of a root on the circle is from one
_REAL = 1e-8  # the imaginary part of a real root: half of a pair is twice as much
_BEYOND = 1e-12  # of the circle, from where on roots are replaced


def invertible(coefficients: np.ndarray) -> tuple[np.ndarray, float]:
    """The coefficients (q,) of the same process without roots outside of the unit circle, and what the
    variance of its noise is to be multiplied by."""
    roots = _roots(coefficients)
    outside = np.abs(roots) > 1.0 + _BEYOND
    if not outside.any():
        return coefficients, 1.0
    factor = float(np.prod(np.abs(roots[outside]) ** 2))
    roots[outside] = 1.0 / roots[outside].conj()
    return np.poly(roots).real[1:], factor


def unit_roots(coefficients: np.ndarray) -> list[tuple[np.ndarray, float]]:
    """For each root on the unit circle, pairs as one: slopes (q,) of the coefficients by the logarithm
    of its modulus, and that of the logarithm of the variance of the noise along which the likelihood is
    even."""
    roots, found = _roots(coefficients), []
    for place in np.flatnonzero((np.abs(np.abs(roots) - 1.0) < _ON) & (roots.imag >= -_REAL)):
        others = np.atleast_1d(np.poly(np.delete(roots, place)))
        slopes = -roots[place] * others
        pair = roots[place].imag > _REAL
        found.append(((2.0 if pair else 1.0) * slopes.real, -2.0 if pair else -1.0))
    return found


def _roots(coefficients: np.ndarray) -> np.ndarray:
    """(q,) r of the factors 1 - r L; zero where coefficients at the end are."""
    found = np.zeros(len(coefficients), complex)
    roots = np.roots(np.append(1.0, coefficients))  # without those at zero
    found[: len(roots)] = roots
    return found
