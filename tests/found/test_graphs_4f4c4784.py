"""Found by `make fuzz`; it was: wrong answer: accepted: a graph or data that cannot be read."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "sites": 1,
    "edges": [(0,)],
    "form": "pairs",
    "emission": "poisson",
    "classes": 1,
    "beta": 0.0,
    "data": [0.0],
    "folds": {"kind": "points", "options": {}},
    "loss": "pointwise",
    "fit": None,
    "seed": 0,
    "plain": False,
}


def test_graphs_4f4c4784():
    require_sound("graphs", RECIPE)
