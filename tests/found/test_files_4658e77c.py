"""Found by `make fuzz`; it was: wrong answer: unexpected error OverflowError: fitonce: unexp."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "files": {
        "e.csv": b"999999999999999999999999999999999999999999999999999999999999999999999999"
        b"999999999999999999999999999999999999999999999999999999999999999999999999"
        b"999999999999999999999999999999999999999999999999999999999999999999999999"
        b"999999999999999999999999999999999999999999999999999999999999999999999999"
        b"999999999999999999999999999999999999999999999999999999999999999999999999"
        b"99999999999999999999999999999999999999,j\n0,1\n1,2\n2,3\n3,4\n4,5\n0,5"
        b"\n",
        "a.csv": b"name,cases,people\ns0,2,92\ns1,3,93\ns2,1,91\ns3,9,99\ns4,8,98\ns5,11,101\n",
    },
    "words": [
        "cv",
        "a.csv",
        "--model",
        "potts-poisson",
        "--columns",
        "cases",
        "--edges",
        "e.csv",
        "--beta",
        "0.5",
        "--folds",
        "points",
        "--restarts",
        "1",
        "--optima",
        "0",
        "--no-cache",
        "--json",
    ],
    "plain": False,
}


def test_files_4658e77c():
    require_sound("files", RECIPE)
