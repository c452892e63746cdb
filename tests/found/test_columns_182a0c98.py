"""Found by `make fuzz`; it was: refused what is right: ValueError: data must have the column."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "family": "regression",
    "emission": "gaussian",
    "names": ["a", "b", 0],
    "order": [0, 1, 2],
    "change": None,
    "which": 0,
    "new name": "",
    "door": "score",
    "frame": "pandas",
    "missing": False,
    "seed": 0,
    "plain": True,
}


def test_columns_182a0c98():
    require_sound("columns", RECIPE)
