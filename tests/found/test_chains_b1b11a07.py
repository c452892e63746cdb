"""Found by `make fuzz`; it was: wrong answer: fold 0: no parameters, but stationary, reached."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "emission": "spherical",
    "states": 2,
    "options": {"initial_concentration": 1.0},
    "data": [
        [
            [13.003888130187988, -42.39178466796875, -34.744346618652344],
            [20.991994857788086, -10.978979110717773, -14.23366641998291],
            [4.826254367828369, -4.246800688889607e-09, -32.65835189819336],
            [6.5, 24.709928512573242, 0.0],
            [6.5, 24.709928512573242, 0.0],
            [32.746490478515625, 7.223225116729736, -2.745497703552246],
            [38.70137405395508, 0.0, 13.719240188598633],
            [0.0, -6.103515625e-05, -29.244131088256836],
        ],
        [
            [38.70137405395508, 0.0, 13.719240188598633],
            [-1.692918300628662, -2.220446049250313e-16, -43.46397399902344],
        ],
        [[-0.07759128510951996, -19.6162109375, -0.0], [0.0, 4.628139972686768, 0.0]],
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


def test_chains_b1b11a07():
    require_sound("chains", RECIPE)
