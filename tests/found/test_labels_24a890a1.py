"""Found by `make fuzz`; it was: wrong answer: fold 0: no parameters, but approximate."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "features": [
        [[0.0, 0.0]],
        [[0.0, 0.0], [0.0, 0.0]],
        [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]],
    ],
    "labels": [["a"], ["a", "a"], ["a", "a", "a", "a", "b"]],
    "reading": {},
    "options": {"start_support": [True, False]},
    "sparse": False,
    "folds": {"kind": "points", "options": {}},
    "loss": "pointwise",
    "fit": None,
    "seed": 0,
    "plain": False,
}


def test_labels_24a890a1():
    require_sound("labels", RECIPE)
