"""Recipes of columns, rows, dates and labels in another order. Numbers come from a seed: only their
order is judged."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from fuzzing.strategies import names, seeds

_numbered = st.sampled_from(["x0", "x1", "x2", "u0", "0", "1", "2", 0, 1, 2, 7])
_column = st.one_of(names, st.sampled_from(list("defgh")), _numbered)
DOORS = {
    "chain": ("score", "score, read", "score, list", "score, dict", "score, lengths", "likelihood of",
              "decode", "predict", "marginals", "saved", "saved without data"),
    "estimator": ("score", "Estimator.score", "Estimator.predict", "Estimator.predict_proba",
                  "Estimator.transform"),
    "product": ("score", "decode", "saved"),
    "regression": ("score", "score, list", "score, dict", "decode", "marginals", "saved"),
    "factors": ("score", "smoothed", "saved"),
    "tags": ("predict of tags", "marginals of tags", "score of tags", "score of tags, read"),
}  # fmt: skip
CHANGES = (None, None, None, "another name", "one less", "one more", "one twice")


@st.composite
def columns(draw: Any) -> dict[str, Any]:
    """A fit to a table with named columns, and another table for one of its doors."""
    family = draw(st.sampled_from(["chain", "chain", "chain", *DOORS]))
    count = draw(st.integers(1, 4)) if family == "chain" else 3  # factors are compiled
    called = draw(st.lists(_column, min_size=count + 1, max_size=count + 1, unique_by=str))
    return {
        "family": family,
        "emission": draw(st.sampled_from(["gaussian", "poisson", "full", "gamma", "categorical"])),
        "names": called[:-1],
        "order": draw(st.permutations(range(count))),
        "change": draw(st.sampled_from(CHANGES)),
        "which": draw(st.integers(0, count - 1)),
        "new name": called[-1],
        "door": draw(st.sampled_from(DOORS[family])),
        "frame": draw(st.sampled_from(["pandas", "pandas", "polars"])),
        "missing": draw(st.booleans()),
        "seed": draw(seeds),
        "plain": True,  # refused only where the judge says so
    }


# --- dates -----------------------------------------------------------------------------------------

DATES = (
    "days", "seconds", "zone", "periods", "months", "iso", "european", "stamps", "objects", "elapsed",
    "years", "numbers", "text",
)  # fmt: skip
WRITTEN = ("days", "seconds", "iso", "european", "stamps")  # in files
READERS = ("series", "table", "list", "dict", "lengths", "group", "index", "polars", "score", "folds")


def _shuffled(count: int) -> st.SearchStrategy[list[int]]:
    return st.one_of(st.just(list(range(count))), st.permutations(range(count)).map(list))


@st.composite
def dates(draw: Any) -> dict[str, Any]:
    """Rows with dates in some order, for a reader of tables in Python or for a command."""
    count = draw(st.integers(2, 9))
    door = draw(st.sampled_from([*READERS, *READERS, "decode", "decode", "cv"]))
    alone = door not in ("list", "dict", "lengths", "group", "decode")
    forms = WRITTEN if door in ("decode", "cv") else DATES
    if not alone and door != "decode":  # day and month of some rows could be swapped
        forms = tuple(form for form in forms if form != "european")
    most = 12 if door == "decode" else 60  # steps without a row, which decode takes for gaps
    offsets = st.lists(st.integers(1, most), min_size=count - 1, max_size=count - 1, unique=True)
    rest = sorted(draw(offsets))
    return {
        "door": door,
        "form": draw(st.sampled_from(forms)),
        "offsets": [0, *rest],  # 13 January, so that day and month cannot be swapped
        "order": draw(_shuffled(count)),
        "twice": draw(st.sampled_from([None, None, (count - 1, 0), (1, 0)])),
        "owner": [0] * count
        if alone
        else draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)),
        "seed": draw(seeds),
        "plain": True,  # refused only where the judge says so
    }


# --- what comes beside data ------------------------------------------------------------------------

LABELS = ("days", "iso", "periods", "names", "codes", "rows")
BESIDE = {
    "covariates": ("table", "series", "dict", "list", "with dates", "two sequences"),
    "forecast": ("table", "dict", "command"),
    "exposure": ("graph", "data"),
    "regions": ("graph", "data"),
    "groups": ("dict",),
    "mask": ("series",),
    "clusters": ("chain", "points"),
}
SITES = 6


@st.composite
def beside(draw: Any) -> dict[str, Any]:
    """What comes beside data with labels of their own, in an order of its own."""
    what = draw(st.sampled_from(sorted(BESIDE)))
    way = draw(st.sampled_from(BESIDE[what]))
    labels = draw(st.sampled_from(LABELS))
    if what == "forecast":
        labels = draw(st.sampled_from(["days", "iso", "periods"]))
    if what == "groups" or (what in ("exposure", "regions") and way == "graph"):
        labels = draw(st.sampled_from(["names", "codes"]))
    called = draw(st.lists(names, min_size=SITES, max_size=SITES, unique=True))
    faults = [None, None, None, "lacking", "twice", "others"]
    tables = what in ("covariates", "forecast") and way in ("table", "list", "with dates")
    return {
        "what": what,
        "way": way,
        "labels": labels,
        "names": called,
        "order": draw(_shuffled(SITES)),
        "fault": draw(st.sampled_from([*faults, *(["column twice"] if tables else [])])),
        "more": draw(st.booleans()),
        "which": draw(st.integers(0, SITES - 1)),
        "seed": draw(seeds),
        "plain": True,  # refused only where the judge says so
    }


# --- exchangeable things ---------------------------------------------------------------------------

POINTS = 12
_METHODS = ("none", "ij", "onestep", "exact", "auto")


@st.composite
def places(draw: Any) -> dict[str, Any]:
    """Points of an own density, sequences or sites, and their places after they were moved."""
    what = draw(st.sampled_from(["points", "sequences", "map"]))
    count = {"points": POINTS, "map": SITES}.get(what) or draw(st.integers(2, 5))
    inside = st.integers(0, count - 1)
    pairs = st.tuples(inside, inside).filter(lambda pair: pair[0] != pair[1])
    sets = st.lists(
        st.lists(inside, min_size=1, max_size=max(1, count // 3), unique=True), min_size=2, max_size=4
    )
    return {
        "what": what,
        "order": draw(st.permutations(range(count)).map(list)),
        "form": draw(st.sampled_from(["arrays", "table", "names"])),
        "edges": draw(st.lists(pairs, max_size=9)) if what == "map" else [],
        "lengths": draw(st.lists(st.integers(1, 7), min_size=count, max_size=count))
        if what == "sequences"
        else [],
        "states": draw(st.sampled_from([1, 2])),
        "folds": draw(sets),
        "fit": draw(st.booleans()),
        "method": draw(st.sampled_from(_METHODS)),
        "loss": draw(st.sampled_from(["pointwise", "joint"])),
        "seed": draw(seeds),
        "plain": True,  # refused only where the judge says so
    }
