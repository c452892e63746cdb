"""Found by `make fuzz`; it was: warning: RuntimeWarning: overflow encountered in matmul."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "emission": "fixed",
    "states": 3,
    "options": {},
    "data": [[[1e90], [0.0], [0.0], [0.0], [0.0], [0.0], [0.0], [0.0]]],
    "form": "arrays",
    "folds": {"kind": "points", "options": {}},
    "fit": None,
    "loss": "pointwise",
    "seed": 0,
    "far": 1.0,
    "zeros": 0.0,
    "plain": False,
}


def test_chains_76292d99():
    require_sound("chains", RECIPE)
