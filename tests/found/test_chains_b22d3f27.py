"""Found by `make fuzz`; it was: raw error: IndexError: index 0 is out of bounds for axis 0 w."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "emission": "beta",
    "states": 1,
    "options": {"end_prior": (1.1, 1.1)},
    "data": [[[0.5]], [[0.5]], [[0.5]], [[0.5]], [[0.5]], [[0.5]], [[0.5]], [[0.5]]],
    "form": "arrays",
    "folds": {"kind": "points", "options": {}},
    "fit": None,
    "loss": "pointwise",
    "seed": 0,
    "far": 1.0,
    "zeros": 0.0,
    "plain": False,
}


def test_chains_b22d3f27():
    require_sound("chains", RECIPE)
