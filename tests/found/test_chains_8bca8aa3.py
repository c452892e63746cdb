"""Found by `make fuzz`; it was: wrong answer: fold 0: a loss without parameters."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "emission": "von-mises",
    "states": 2,
    "options": {"stationary": True},
    "data": [
        [[1.0800421237945557, 1.899999976158142, 0.0]],
        [[0.0, -2.8940274715423584, 0.0]],
        [
            [0.0, 1.7557462453842163, -1.2893218994140625],
            [-2.8610523667539176e-24, -0.6526842713356018, 0.0],
            [1.4257813692092896, 0.7000004053115845, 0.9999899864196777],
            [0.0, 0.0, 0.867240846157074],
            [0.0, 0.0, 0.0],
            [0.0, 1.2434155941009521, 0.0],
            [-1.0824908018112183, 2.0, 0.0],
            [0.8780574798583984, -1.5794906616210938, 0.0],
        ],
    ],
    "form": "arrays",
    "folds": {"kind": "future", "options": {"start": 7}},
    "fit": "newton",
    "loss": "pointwise",
    "seed": 0,
    "far": 1.0,
    "zeros": 0.0,
    "plain": False,
}


def test_chains_8bca8aa3():
    require_sound("chains", RECIPE)
