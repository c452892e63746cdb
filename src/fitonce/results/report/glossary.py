"""Words of the report, explained."""

from __future__ import annotations

from fitonce.results.report.markup import Markup, join, tag

TERMS: dict[str, str] = {
    "fold": (
        "What is left out together: points, a block of time, a region of a map, a whole sequence. "
        "The model is judged on it with parameters that have not seen it."
    ),
    "held-out loss": (
        "Minus the log probability that the model gives to a left-out point. Smaller is better. A "
        "difference of 0.7 is a factor of two in probability."
    ),
    "pointwise and joint loss": (
        "Pointwise: every left-out point on its own. Joint: all points of a fold at once."
    ),
    "estimate": ("The mean over folds of the fold's loss."),
    "standard error (se)": (
        "How much the estimate would vary with other data of the same kind. The data are cut into "
        "contiguous stretches, each of which counts as one observation. It does not speak of the "
        "approximation."
    ),
    "control": (
        "The same folds with the parameters of the full fit, not adjusted. An approximation earns "
        "its keep only where it is nearer to exact refits than the control is."
    ),
    "exact refit": ("The model fitted again without the fold, to a certified minimum."),
    "error of a fold": ("Estimated difference between a fold's loss here and that of an exact refit."),
    "tolerance": (
        "The error of a fold's loss that its verdict allows: a tenth of the standard error unless "
        "something else was asked for."
    ),
    "verdict": ("How far to trust a fold's loss: good, fair, bad or unchecked."),
    "distance": ("How far a fold's parameters are from the fold's own optimum, in standard errors."),
    "move, away": (
        "How far a fold's parameters are from the full fit's, in standard errors. A fold is away "
        "where that is more than ten times what is usual for its size; there may be another "
        "optimum."
    ),
    "rung": (
        "Which step of the ladder gave a fold its parameters: from no adjustment to one step to a refit."
    ),
    "scheme": (
        "What happens to the latent state of a left-out observation. A: it stays. B: it goes. C: "
        "a label is summed over. structures: whole sequences go."
    ),
    "stationary": ("The gradient is zero to rounding, and the curvature is that of a minimum."),
    "displacement": (
        "By how much twice the log posterior of all data would drop at the parameters fitted "
        "without the point. Large: the point carries the fit."
    ),
    "damping": (
        "A number added to the diagonal of H, the matrix of second derivatives, where it is not "
        "positive definite."
    ),
}


def glossary() -> Markup:
    """All terms, as a list."""
    return tag("dl", *(join([tag("dt", term), tag("dd", words)]) for term, words in TERMS.items()))
