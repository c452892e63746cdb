"""Found by `make fuzz`; it was: wrong answer: accepted: a graph or data that cannot be read."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "sites": 3,
    "edges": [[]],
    "form": "pairs",
    "emission": "poisson",
    "classes": 1,
    "beta": 0.0,
    "data": [nan, nan, 0.0],
    "folds": {"kind": "points", "options": {}},
    "loss": "joint",
    "fit": None,
    "seed": 4938,
    "plain": False,
}


def test_graphs_3251905b():
    require_sound("graphs", RECIPE)
