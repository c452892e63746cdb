"""Found by `make fuzz`; it was: wrong answer: unexpected error RuntimeWarning: fitonce: unex."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "files": {
        "a.csv": b"y,count,who\n2024-01-01,2,a\n2024-01-02,3,a\n2024-01-03,1,a\n2024-01-04,9,a\n2"
    },
    "words": [
        "cv",
        "a.csv",
        "--model",
        "poisson-hmm",
        "--columns",
        "count",
        "--folds",
        "kfold",
        "--k",
        "3",
        "--restarts",
        "1",
        "--optima",
        "0",
        "--no-cache",
        "--json",
        "--durations",
        "poisson",
    ],
    "plain": False,
}


def test_files_b137754b():
    require_sound("files", RECIPE)
