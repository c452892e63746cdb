"""The most probable tags or hidden states, and posterior probabilities."""

from __future__ import annotations

from typing import Any

from fitonce.fitting import inference
from fitonce.fitting.fit import Fit
from fitonce.fitting.required import require_a_fit


def predict(fit: Fit, features: Any = None, *, lengths: Any = None) -> list[Any]:
    """The jointly most probable tags of each sequence (Viterbi); for a chain its hidden states, an array
    (T_n,) of integers for each sequence, or a Series with the index of tables of pandas.

    Args:
        fit: of a model of labels, or of a chain.
        features: as for `fo.labelled`, or what it returned; for a chain, other data. None: those of the
            fit.
        lengths: of sequences whose rows are one after another in one array, for a chain.
    """
    _require(fit)
    return inference.decode(fit, features, lengths)


def marginals(fit: Fit, features: Any = None, *, lengths: Any = None) -> list[Any]:
    """Posterior probabilities p(z_t | x) of each tag or hidden state at each step, an array (T_n, K) for
    each sequence, or a DataFrame with the index of tables of pandas; labels are not used.

    Args:
        fit: of a model of labels, or of a chain.
        features, lengths: as for `predict`.
    """
    _require(fit)
    return inference.marginals(fit, features, lengths)


def _require(fit: Any) -> None:
    require_a_fit(fit)
