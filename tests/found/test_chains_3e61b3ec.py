"""Found by `make fuzz`; it was: warning: RuntimeWarning: invalid value encountered in divide."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "emission": "tied",
    "states": 3,
    "options": {},
    "data": [
        [[nan], [-50.0], [nan], [nan], [32.84101486206055], [-0.0], [0.30000001192092896], [nan]],
        [[nan], [15.565691947937012], [nan], [42.87359619140625], [nan], [1e90], [nan], [nan]],
    ],
    "form": "one array",
    "folds": {"kind": "points", "options": {}},
    "fit": "exact",
    "loss": "pointwise",
    "seed": 2,
    "far": 1.0,
    "zeros": 0.0,
    "plain": False,
}


def test_chains_3e61b3ec():
    require_sound("chains", RECIPE)
