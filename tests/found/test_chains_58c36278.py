"""Found by `make fuzz`; it was: wrong answer: log-likelihood (): np.float64(0.0), expected n."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "emission": "student-t",
    "states": 1,
    "options": {},
    "data": [[[1e20], [0.0], [0.0], [0.0], [0.0], [0.0], [0.0], [0.0]]],
    "form": "arrays",
    "folds": {"kind": "points", "options": {}},
    "fit": None,
    "loss": "pointwise",
    "seed": 0,
    "far": 1.0,
    "zeros": 0.0,
    "plain": False,
}


def test_chains_58c36278():
    require_sound("chains", RECIPE)
