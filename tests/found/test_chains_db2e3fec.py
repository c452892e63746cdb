"""Found by `make fuzz`; it was: warning: RuntimeWarning: divide by zero encountered in log."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "emission": "fixed",
    "states": 3,
    "options": {"stationary": True},
    "data": [
        [
            [0.0, -47.21474075317383, 0.0],
            [49.04947280883789, 0.0, 0.0],
            [0.0, -43.588069915771484, 0.0],
            [0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0],
        ],
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
    ],
    "form": "arrays",
    "folds": {"kind": "points", "options": {}},
    "fit": "auto",
    "loss": "pointwise",
    "seed": 0,
    "far": 1.0,
    "zeros": 0.0,
    "plain": False,
}


def test_chains_db2e3fec():
    require_sound("chains", RECIPE)
