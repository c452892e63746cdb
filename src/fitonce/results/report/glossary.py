"""The glossary of the report."""

from __future__ import annotations

from fitonce.results.report.markup import Markup, join, tag

TERMS: dict[str, str] = {
    "fold": (
        "Data left out together: points, a block of time, a region of a map, a whole sequence. They "
        "are predicted with parameters estimated without them."
    ),
    "held-out loss": (
        "Minus the log probability that the model assigns to a left-out point. Lower is better. A "
        "difference of 0.7 is a factor of two in probability."
    ),
    "pointwise and joint loss": (
        "Pointwise: each left-out point separately. Joint: all points of a fold together."
    ),
    "estimate": "The mean over folds of the fold's loss.",
    "standard error (se)": (
        "How much the estimate would vary with other data of the same kind. Neighbours in time are "
        "alike, so it counts as many independent stretches as the memory of the losses leaves, or "
        "sequences, or regions. It does not include the error of the approximation."
    ),
    "control": (
        "The same folds with the parameters of the full fit, not adjusted. An approximation is useful "
        "only where it is closer to exact refits than the control."
    ),
    "exact refit": "The model fitted again without the fold, to a certified minimum.",
    "error of a fold": "Estimated difference between a fold's loss and that of an exact refit.",
    "tolerance": (
        "The error of a fold's loss that its verdict allows: by default a tenth of the standard error."
    ),
    "verdict": "The reliability of a fold's loss: good, fair, bad or unchecked.",
    "distance": "Distance of a fold's parameters from the fold's own optimum, in standard errors.",
    "move, away": (
        "Move: distance of a fold's parameters from the full fit, in standard errors. A fold is away "
        "if this is more than ten times what is usual for its size; there may be another optimum."
    ),
    "rung": (
        "How the parameters of a fold were obtained: those of the full fit, one step from there, a "
        "descent to the fold's own optimum, a refit, or another optimum that the search found."
    ),
    "share of the total": (
        "The mean loss of a place, divided by the sum of those of all places, each counted once."
    ),
    "nats": "The unit of a difference of natural logarithms of probabilities; 0.69 nats are one bit.",
    "scheme": (
        "What happens to the latent state of a left-out observation. A: it is kept. B: it is removed. "
        "C: a label is summed over. structures: whole sequences are removed."
    ),
    "stationary": "The gradient is zero up to rounding, and the curvature is that of a minimum.",
    "displacement": (
        "How much twice the log posterior of all data drops at the parameters fitted without the "
        "point. Large: the point has a strong influence on the fit. Exact: from a refit without it."
    ),
    "damping": ("A number added to the diagonal of the Hessian H where H is not positive definite."),
}


def glossary() -> Markup:
    """All terms as a definition list."""
    return tag("dl", *(join([tag("dt", term), tag("dd", words)]) for term, words in TERMS.items()))
