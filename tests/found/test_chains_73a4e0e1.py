"""Found by `make fuzz`; it was: wrong answer: log-likelihood (): np.float64(-6.0), expected ."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "emission": "beta",
    "states": 2,
    "options": {"stickiness": 1000000000000000.0},
    "data": [[[0.5], [0.5], [0.5], [0.5], [0.5], [0.5], [0.5], [0.5]]],
    "form": "arrays",
    "folds": {"kind": "points", "options": {}},
    "fit": None,
    "loss": "pointwise",
    "seed": 0,
    "far": 1.0,
    "zeros": 0.0,
    "plain": False,
}


def test_chains_73a4e0e1():
    require_sound("chains", RECIPE)
