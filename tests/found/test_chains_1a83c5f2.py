"""Found by `make fuzz`; it was: raw error: ValueError: setting an array element with a seque."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "emission": "full",
    "states": 3,
    "options": {},
    "data": [[[3.0]]],
    "form": "tables",
    "folds": {"kind": "sites", "options": {"index_sets": [[0, 11, 28, [0], -2], [None, -2, 8, 15]]}},
    "fit": "exact",
    "loss": "pointwise",
    "seed": 71,
    "far": 1.0,
    "zeros": 0.0,
    "plain": False,
}


def test_chains_1a83c5f2():
    require_sound("chains", RECIPE)
