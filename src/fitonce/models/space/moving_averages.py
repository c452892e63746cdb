"""Unit roots of moving averages, and their invertible form.

theta(L) = 1 + theta_1 L + ... has the factors 1 - r L. These r are called roots here; the zeros of theta
are their inverses. With 1 / conj(r) in place of r, and the variance of the noise times |r|^2, the
process is the same, so that the likelihood is even in log |r| at |r| = 1: a unit root, unless it is a
double one, is an ordinary stationary point, if coefficients may lie on both sides of it.
"""

from __future__ import annotations

import numpy as np

_ON = 1e-5  # a root whose modulus is closer to one is on the unit circle
_REAL = 1e-8  # a root with a smaller imaginary part is real
_BEYOND = 1e-12  # roots that are further outside of the circle than rounding are replaced


def invertible(coefficients: np.ndarray) -> tuple[np.ndarray, float]:
    """The coefficients (q,) of the invertible form of the same process, and the factor by which the
    variance of its noise is larger."""
    roots = _roots(coefficients)
    outside = np.abs(roots) > 1.0 + _BEYOND
    if not outside.any():
        return coefficients, 1.0
    factor = float(np.prod(np.abs(roots[outside]) ** 2))
    roots[outside] = 1.0 / roots[outside].conj()
    return np.poly(roots).real[1:], factor


def may_be_turned(coefficients: np.ndarray) -> np.ndarray:
    """(F,) whether polynomials (q, F) may have roots outside of the unit circle: none has with
    coefficients whose sizes add up to less than one."""
    return np.abs(coefficients).sum(0) > 1.0


def unit_roots(coefficients: np.ndarray) -> list[tuple[np.ndarray, float]]:
    """For each root on the unit circle, pairs as one, the direction inwards, along which the likelihood
    is even: slopes (q,) of the coefficients, and that of the logarithm of the variance of the noise."""
    roots, found = _roots(coefficients), []
    for place in np.flatnonzero((np.abs(np.abs(roots) - 1.0) < _ON) & (roots.imag >= -_REAL)):
        others = np.atleast_1d(np.poly(np.delete(roots, place)))
        slopes = roots[place] * others
        count = 2.0 if roots[place].imag > _REAL else 1.0
        found.append((count * slopes.real, count))
    return found


def _roots(coefficients: np.ndarray) -> np.ndarray:
    """(q,) r of the factors 1 - r L; zero where coefficients at the end are."""
    found = np.zeros(len(coefficients), complex)
    roots = np.roots(np.append(1.0, coefficients))  # without those at zero
    found[: len(roots)] = roots
    return found
