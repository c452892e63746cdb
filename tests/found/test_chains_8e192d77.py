"""Found by `make fuzz`; it was: wrong answer: pointwise losses of fold 0 (0,): np.float64(10."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "emission": "tied",
    "states": 2,
    "options": {"end_prior": (1.1, 1.1)},
    "data": [
        [
            [0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0],
        ],
        [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
        [[0.0, 0.0, 0.0]],
    ],
    "form": "arrays",
    "folds": {"kind": "kfold", "options": {"k": 2, "blocks": False, "seed": 0}},
    "fit": None,
    "loss": "pointwise",
    "seed": 336,
    "far": 30.0,
    "zeros": 0.4,
    "plain": False,
}


def test_chains_8e192d77():
    require_sound("chains", RECIPE)
