"""Rows, dates, labels, sequences and sites in another order: the same answers there, or a refusal."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable
from contextlib import chdir
from functools import cache
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
from scipy import stats
from typer.testing import CliRunner

import fitonce as fo
from fitonce.cli import app
from fuzzing.columns import must_refuse
from fuzzing.judges import Chain, Field, close, log_densities
from fuzzing.order_strategies import POINTS, SITES
from fuzzing.outcomes import Refused

START = pd.Timestamp("2024-01-13")
CHAIN = {"initial": [0.4, 0.6], "transition": [[0.9, 0.1], [0.2, 0.8]], "rate": [[2.0], [8.0]]}


def judge_dates(recipe: dict[str, Any]) -> None:
    """Raise unless rows out of the order of their dates are refused in Python and sorted by commands."""
    offsets = list(recipe["offsets"])
    if recipe["twice"] is not None:
        later, first = recipe["twice"]
        offsets[later] = offsets[first]
    order, owner = np.array(recipe["order"]), np.array(recipe["owner"])
    values = np.random.default_rng(recipe["seed"]).poisson(5.0, len(order)).astype(float)
    labels = _dates(recipe["form"], offsets)
    table = pd.DataFrame({"y": values, "who": np.array(["b", "a"])[owner]}, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fo.GapsWarning)
        if recipe["door"] in ("decode", "cv"):
            ordered = table.iloc[np.argsort(offsets, kind="stable")]
            _judge_command(recipe["door"], ordered, table.iloc[order], np.array(offsets), owner)
        else:
            _judge_reader(recipe, table.iloc[order], np.array(offsets)[order], owner[order])


def _dates(form: str, offsets: list[int]) -> pd.Index:
    """Labels that tell when each row is, so many units after the start."""
    days = START + pd.to_timedelta(offsets, "D")
    made: dict[str, Callable[[], pd.Index]] = {
        "days": lambda: days,
        "seconds": lambda: (START + pd.to_timedelta(offsets, "s")).as_unit("s"),
        # an hour of this night comes twice
        "zone": lambda: pd.Timestamp("2024-10-27", tz="Europe/Oslo") + pd.to_timedelta(offsets, "h") / 4,
        "periods": lambda: days.to_period("D"),
        "months": lambda: pd.PeriodIndex(
            [pd.Period("2024-01", "M") + n for n in offsets]
        ).to_timestamp(),
        "iso": lambda: days.strftime("%Y-%m-%d"),
        "european": lambda: days.strftime("%d.%m.%Y"),
        "stamps": lambda: (START + pd.to_timedelta(offsets, "h")).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "objects": lambda: pd.Index([day.date() for day in days], dtype=object),
        "elapsed": lambda: pd.to_timedelta(offsets, "min"),
        "years": lambda: pd.Index([2000 + n for n in offsets], name="year"),
        "numbers": lambda: pd.Index(offsets),
        "text": lambda: pd.Index([f"site {n}" for n in offsets]),
    }
    return made[form]()


def _judge_reader(
    recipe: dict[str, Any], table: pd.DataFrame, times: np.ndarray, owner: np.ndarray
) -> None:
    names = dict.fromkeys(table["who"])
    parts = [table.loc[(table["who"] == name).to_numpy(), ["y"]] for name in names]
    moments = [times[(table["who"] == name).to_numpy()] for name in names]
    read = _readers(recipe["form"], table, parts)[recipe["door"]]
    twice = any(len(set(one)) < len(one) for one in moments)
    timed = recipe["form"] not in ("numbers", "text")
    if recipe["form"] == "years":  # which may come again
        timed = not any(len(set(one)) < len(one) and (np.diff(one) < 0).any() for one in moments)
        twice = False
        moments = [one for one in moments if len(set(one)) == len(one)]
    back = any((np.diff(one) < 0).any() for one in moments)
    if timed and (twice or back):
        words = ["occurs twice"] if not back else ["must increase from row to row"] if not twice else []
        must_refuse(read, *words)
    found = read()
    for number, part in enumerate(parts):
        close(f"values of {number}", found[number], part["y"].to_numpy())


def _readers(form: str, table: pd.DataFrame, parts: list[pd.DataFrame]) -> dict[str, Callable[[], Any]]:
    """The values of each sequence, as each of the readers finds them."""
    column = {"years": "year", "numbers": "label"}.get(form, "day")
    lengths = [len(part) for part in parts]

    def values(data: fo.Sequences) -> list[np.ndarray]:
        return [one[:length, 0] for one, length in zip(data.values, data.lengths, strict=True)]

    def polars() -> Any:
        import polars as pl

        days = table.set_axis(table.index.to_timestamp()) if form == "periods" else table
        return pl.from_pandas(days[["y"]].reset_index(names=column))

    def score(given: pd.Series) -> list[np.ndarray]:
        assert _fit().score(given) == _fit().score(given.to_numpy()), "score: other than of an array"
        return [given.to_numpy()]

    def folds(given: pd.Series) -> list[np.ndarray]:
        made = [fo.folds.kfold(one, k=2, seed=1) for one in (given, given.to_numpy())]
        same = all(map(np.array_equal, made[0].dropped, made[1].dropped))
        assert same, "folds: others than of an array"
        return [given.to_numpy()]

    return {
        "series": lambda: values(fo.sequences(table["y"])),
        "table": lambda: values(fo.sequences(table[["y"]])),
        "list": lambda: values(fo.sequences(parts)),
        "dict": lambda: values(fo.sequences({str(n): part for n, part in enumerate(parts)})),
        "lengths": lambda: values(fo.sequences(pd.concat(parts), lengths=lengths)),
        "group": lambda: values(fo.sequences(table, group="who")),
        "index": lambda: values(fo.sequences(table[["y"]].reset_index(names=column), index=column)),
        "polars": lambda: values(fo.sequences(polars(), index=column)),
        "score": lambda: score(table["y"]),
        "folds": lambda: folds(table["y"]),
    }


@cache
def _fit() -> fo.Fit:
    return fo.fit_at(fo.models.PoissonHMM(2), np.array([2.0, 3.0, 9.0]), CHAIN)


def _judge_command(
    command: str, ordered: pd.DataFrame, given: pd.DataFrame, times: np.ndarray, owner: np.ndarray
) -> None:
    words = ["--time", "day", "--csv", "--columns", "y", *(["--group", "who"] if owner.any() else [])]
    if command == "cv":
        words = ["--model", "poisson-hmm", "--states", "1", "--columns", "y", "--time", "day", "--folds",
                 "points", "--method", "none", "--no-gaps", "--no-cache", "--json"]  # fmt: skip
    printed = []
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        _fit().save("fit.json")
        for name, table in (("ordered.csv", ordered), ("given.csv", given)):
            table.to_csv(name, index_label="day")
            first = ["cv", name] if command == "cv" else ["decode", "fit.json", name]
            printed.append(
                _run(
                    [*first, *words],
                    lambda text: "occurs twice" in text or "too many to be gaps" in text,
                )
            )
    twice = any(len(set(times[owner == one])) < (owner == one).sum() for one in (0, 1))
    assert not twice, "accepted: a date that occurs twice"
    if command == "cv":
        found = [{k: v for k, v in json.loads(one).items() if k != "seconds"} for one in printed]
        assert found[0] == found[1], f"cv of a shuffled file: {found}"
        return
    lines = [sorted(one.splitlines()) for one in printed]  # groups have the order of appearance
    assert lines[0] == lines[1], f"decode of a shuffled file: {lines}"
    assert len(lines[0]) > len(given), "decode: rows are lacking"


def _run(words: list[str], right: Callable[[str], bool]) -> str:
    """What a command prints; one that ends with a sentence that is right has refused."""
    done = CliRunner().invoke(app, words)
    if done.exit_code == 0:
        return done.stdout
    told = " ".join(done.stderr.split())
    assert done.exit_code == 2, f"exit code {done.exit_code}: {done.exception!r} {told}"
    assert right(told), f"refused what is right: {told}"
    raise Refused(told)


# --- what comes beside data ------------------------------------------------------------------------


def judge_beside(recipe: dict[str, Any]) -> None:
    """Raise unless what comes beside data is found by its labels, or refused by them."""
    rng = np.random.default_rng(recipe["seed"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fo.GapsWarning)
        _BESIDE[recipe["what"]](recipe, rng)


def _labels(recipe: dict[str, Any], shift: int = 0) -> pd.Index:
    """Of the sites; others where shifted."""
    numbers = np.arange(SITES) + shift
    kind, days = recipe["labels"], START + pd.to_timedelta(numbers, "D")
    made: dict[str, Callable[[], pd.Index]] = {
        "days": lambda: days,
        "iso": lambda: days.strftime("%Y-%m-%d"),
        "periods": lambda: days.to_period("D"),
        "names": lambda: pd.Index([f"other {n}" for n in numbers] if shift else recipe["names"]),
        "codes": lambda: pd.Index((numbers + 10) ** 2, name="code"),
        "rows": lambda: pd.RangeIndex(shift, shift + SITES),
    }
    return made[kind]()


def _moved(recipe: dict[str, Any], values: Any, start: int = 0, fault: bool = True) -> Any:
    """A Series or table of values in the order of the sites, moved with its labels, with rows besides
    and faults."""
    labels, other = _labels(recipe, start), _labels(recipe, 1000)
    made = pd.DataFrame(values) if isinstance(values, dict) else pd.Series(values)
    given = made.set_axis(labels).iloc[recipe["order"]]
    fault = recipe["fault"] if fault else None
    if fault == "lacking":
        given = given.drop(given.index[recipe["which"]])
    if fault == "twice":
        given = pd.concat([given, given.iloc[[recipe["which"]]]])
    if fault == "others":
        given = given.set_axis(other[recipe["order"]])
    if fault == "column twice":
        given = pd.concat([given, given["u"]], axis=1)
    if recipe["more"]:
        given = pd.concat([given, given.iloc[[0]].set_axis(_labels(recipe, 2000)[:1])])
    return given.rename_axis(labels.name)


def _judge_laid(recipe: dict[str, Any], work: Callable[[], Any]) -> Any:
    """What work finds, unless labels have a fault, which must be refused."""
    words = {"lacking": "must have rows for all of", "others": "must have rows for all of",
             "twice": "occurs twice in", "column twice": "'u' occurs twice in covariates"}  # fmt: skip
    if recipe["fault"] is not None:
        plain = recipe["labels"] == "rows"  # the first of all rows are like numbers of others
        must_refuse(work, *([] if plain else [words[recipe["fault"]]]))
    return work()


def _covariates(recipe: dict[str, Any], rng: np.random.Generator) -> None:
    way = recipe["way"]
    if way == "with dates" and recipe["labels"] not in ("days", "iso"):
        recipe = recipe | {"labels": "days"}
    known = {"u": rng.normal(size=SITES), "v": rng.normal(size=SITES)}
    y, given = pd.Series(rng.normal(size=SITES), _labels(recipe)), _moved(recipe, known)
    back = _moved(recipe | {"order": recipe["order"][::-1]}, known["v"], fault=False)
    ways: dict[str, Any] = {
        "table": lambda: given,
        "series": lambda: given["u"],
        "dict": lambda: {"u": given["u"], "v": back},
        "list": lambda: [given],
        "with dates": lambda: given.reset_index(names="when"),
        "two sequences": lambda: {"u": [given["u"], back]},
    }

    def work() -> Any:
        both = way == "two sequences"
        return fo.sequences([y, y] if both else y, covariates=ways[way]())

    found = _judge_laid(recipe, work).covariates
    if way == "two sequences":
        close("covariates", found[..., 0], [known["u"], known["v"]])
    else:
        close("covariates", found[0].T, [known["u"]] if way == "series" else [known["u"], known["v"]])


@cache
def _regression(labels: str) -> fo.Fit:
    """A fit to the steps before those of a forecast."""
    rng, past = np.random.default_rng(0), {"u": np.arange(12.0) % 5, "v": np.arange(12.0) % 3}
    days = START - pd.to_timedelta(np.arange(12, 0, -1), "D")
    made = {"days": days, "iso": days.strftime("%Y-%m-%d"), "periods": days.to_period("D")}[labels]
    y = pd.Series(2 * past["u"] - past["v"] + rng.normal(size=12), made)
    data = fo.sequences(y, covariates=past)
    return fo.fit(fo.models.Structural("fixed", exog=["u", "v"]), data, restarts=1, progress=False)


def _forecast(recipe: dict[str, Any], rng: np.random.Generator) -> None:
    fit, known = _regression(recipe["labels"]), {n: rng.normal(size=SITES) for n in ("u", "v")}
    given = _moved(recipe, known)
    if recipe["way"] == "command":
        right = pd.DataFrame(known, _labels(recipe))
        words = ["forecast", "fit.json", "--steps", str(SITES), "--csv", "--covariates"]
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            fit.save("fit.json")
            right.to_csv("right.csv", index_label="day")
            given.to_csv("given.csv", index_label="day")
            expected = _run([*words, "right.csv"], lambda text: False)
            found = _run([*words, "given.csv"], lambda text: recipe["fault"] is not None)
        assert recipe["fault"] is None, "accepted: covariates of other steps"
        assert found == expected, f"forecast of a shuffled file: {found} expected {expected}"
        return
    ways = {"table": given, "dict": {name: given[name] for name in given}}
    found = _judge_laid(recipe, lambda: fit.forecast(SITES, n=3, covariates=ways[recipe["way"]]))
    close("forecast", found.samples, fit.forecast(SITES, n=3, covariates=known).samples)


def _sites(recipe: dict[str, Any]) -> tuple[Any, pd.Index | None]:
    """A path of sites: a graph that names them, or edges and the index of the data."""
    edges, labels = [(k, k + 1) for k in range(SITES - 1)], _labels(recipe)
    if recipe["way"] == "data":
        return edges, labels
    graph = nx.Graph()
    graph.add_nodes_from(labels)
    graph.add_edges_from([(labels[i], labels[j]) for i, j in edges])
    return graph, None


def _exposure(recipe: dict[str, Any], rng: np.random.Generator) -> None:
    graph, labels = _sites(recipe)
    x, rooms = rng.poisson(6.0, SITES).astype(float), rng.uniform(0.5, 3.0, SITES)
    data = x if labels is None else pd.Series(x, labels)
    given = _moved(recipe, rooms)

    def work() -> fo.Fit:
        model = fo.models.PottsMixture(graph, 2, "poisson", beta=0.5, exposure=given)
        return fo.fit_at(model, data, {"rate": np.array([2.0, 7.0])})

    if labels is not None and not given.index.equals(labels):  # edges have no names to find them by
        must_refuse(work)
    fit = _judge_laid(recipe, work)
    table = stats.poisson.logpmf(x[:, None], rooms[:, None] * [2.0, 7.0])
    field = Field(table, [(k, k + 1) for k in range(SITES - 1)], 0.5)
    close("log-likelihood", fit.log_likelihood, field.log_likelihood(np.ones(SITES, bool)))


def _parts(letters: np.ndarray) -> set[tuple[int, ...]]:
    return {tuple(np.flatnonzero(letters == one).tolist()) for one in set(letters)}


def _regions(recipe: dict[str, Any], rng: np.random.Generator) -> None:
    graph, labels = _sites(recipe)
    letters = rng.permutation(list("aabbcc"))
    data = None if labels is None else pd.Series(np.ones(SITES), labels)
    given = _moved(recipe, letters)
    found = _judge_laid(recipe, lambda: fo.folds.regions(graph, labels=given, data=data))
    assert {tuple(one.tolist()) for one in found.dropped} == _parts(letters), "regions: others"


def _groups(recipe: dict[str, Any], rng: np.random.Generator) -> None:
    letters = rng.permutation(list("aabbcc"))
    data = {name: pd.DataFrame({"y": rng.normal(size=3)}) for name in _labels(recipe)}
    given = _moved(recipe, letters)
    found = _judge_laid(recipe, lambda: fo.folds.structures(data, groups=given))
    assert {tuple(one.tolist()) for one in found.dropped} == _parts(letters), "groups: others"


def _mask(recipe: dict[str, Any], rng: np.random.Generator) -> None:
    out = rng.permutation([True, True, False, False, False, True])
    y, given = pd.Series(rng.normal(size=SITES), _labels(recipe)), _moved(recipe, out)
    found = _judge_laid(recipe, lambda: fo.folds.sites([given], y))
    assert np.array_equal(found.dropped[0], np.flatnonzero(out)), "mask: other sites"


def _clusters(recipe: dict[str, Any], rng: np.random.Generator) -> None:
    letters, labels = rng.permutation(list("aabbcc")), _labels(recipe)
    y = rng.poisson(6.0, SITES).astype(float)
    if recipe["way"] == "chain":
        fit = fo.fit_at(fo.models.PoissonHMM(2), pd.Series(y, labels), CHAIN)
    else:
        table = pd.DataFrame({"x": rng.normal(size=SITES), "y": y}, labels)
        start = {"line": np.array([3.0, 1.0]), "sd": np.array(2.0)}
        fit = fo.fit_at(_custom(), table, start)
    folds, given = fo.folds.points(SITES), _moved(recipe, letters)

    def work() -> fo.CVResult:
        return fo.cross_validate(fit, folds, method="none", clusters=given, check=False, progress=False)

    cv = _judge_laid(recipe, work)
    apart = cv.pointwise["loss"].to_numpy() - cv.estimate
    sums = np.array([apart[letters == one].sum() for one in "abc"])
    close("standard error of clusters", cv.se, np.sqrt(3 / 2 * (sums**2).sum()) / SITES)


_BESIDE = {
    "covariates": _covariates, "forecast": _forecast, "exposure": _exposure, "regions": _regions,
    "groups": _groups, "mask": _mask, "clusters": _clusters,
}  # fmt: skip


# --- exchangeable things ---------------------------------------------------------------------------


def judge_places(recipe: dict[str, Any]) -> None:
    """Raise unless points, sequences and sites in another order have the same answers in that order."""
    _PLACES[recipe["what"]](recipe, np.random.default_rng(recipe["seed"]))


def _line(params: Any, data: Any, weights: Any) -> Any:
    """The log density of a line with normal errors; of a table, an array comes."""
    import jax.numpy as jnp

    x, y = (data["x"], data["y"]) if isinstance(data, dict) else (data[:, 0], data[:, 1])
    apart = (y - params["line"][0] - params["line"][1] * x) / params["sd"]
    return jnp.sum(weights * (-0.5 * apart**2 - jnp.log(params["sd"]) - 0.5 * np.log(2 * np.pi)))


@cache
def _custom() -> fo.models.Custom:
    start = {"line": np.zeros(2), "sd": np.ones(())}
    return fo.models.Custom(_line, start, constraints={"sd": "positive"})


def _points(recipe: dict[str, Any], rng: np.random.Generator) -> None:
    x, order = rng.normal(size=POINTS), np.array(recipe["order"])
    table = pd.DataFrame({"x": x, "y": 1.0 + 2.0 * x + rng.normal(size=POINTS)})
    if recipe["form"] == "names":
        table.index = pd.Index([f"child {n}" for n in range(POINTS)])
    sets = [sorted(one) for one in recipe["folds"]]
    found = []
    for given, folds in ((table, sets), (table.iloc[order], _after(sets, order))):
        data = given if recipe["form"] != "arrays" else {n: given[n].to_numpy() for n in given}
        fit = fo.fit(_custom(), data, restarts=1, optima=0, progress=False)
        found.append(_crossed(fit, fo.folds.sites(folds, POINTS), recipe["method"], recipe["loss"]))
        params = _least_squares(table, np.ones(POINTS, bool))
        near("parameters", [*fit.params["line"], fit.params["sd"]], params)
    _judge_moved(found[0], found[1], np.argsort(order))
    near("standard error", found[1].se, found[0].se)
    if recipe["method"] != "exact":
        return
    losses, number = found[1].folds["loss"].to_numpy(), 0
    for number, out in enumerate(sets):
        kept = np.ones(POINTS, bool)
        kept[out] = False
        first, slope, sd = _least_squares(table, kept)
        expected = stats.norm.logpdf(table["y"], first + slope * table["x"], sd)[out]
        near(f"loss of fold {number}", losses[number], -expected.mean())


def near(what: str, found: Any, expected: Any) -> None:
    """Raise unless results of two searches for one optimum agree: to the digits that these promise."""
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    same = np.allclose(found, expected, rtol=1e-6, atol=1e-6, equal_nan=True)
    assert same, f"{what}: {found}, expected {expected}"


def _least_squares(table: pd.DataFrame, kept: np.ndarray) -> tuple[float, float, float]:
    x, y = table["x"].to_numpy()[kept], table["y"].to_numpy()[kept]
    slope = np.cov(x, y, bias=True)[0, 1] / x.var()
    first = y.mean() - slope * x.mean()
    return first, slope, float(np.sqrt(np.mean((y - first - slope * x) ** 2)))


def _after(sets: list[list[int]], order: np.ndarray) -> list[list[int]]:
    """The same sites after row `order[k]` has become row k."""
    place = np.argsort(order)
    return [sorted(place[one].tolist()) for one in sets]


def _crossed(fit: fo.Fit, folds: fo.Folds, method: str, loss: str) -> fo.CVResult:
    return fo.cross_validate(
        fit, folds, method=method, loss=loss, optima=0, progress=False,
        check=None if method == "auto" else False,
    )  # fmt: skip


def _judge_moved(first: fo.CVResult, second: fo.CVResult, place: np.ndarray) -> None:
    """Losses of folds, and of the sites that went to `place`."""
    near("losses of folds", second.folds["loss"], first.folds["loss"])
    near("estimate", second.estimate, first.estimate)
    tables = [one.pointwise.copy() for one in (first, second)]
    if "site" not in tables[0]:
        return
    tables[0]["site"] = place[tables[0]["site"].to_numpy()]
    each = [one.sort_values(["fold", "site"])["loss"].to_numpy() for one in tables]
    near("losses of sites", each[1], each[0])


def _sequences(recipe: dict[str, Any], rng: np.random.Generator) -> None:
    order, states = np.array(recipe["order"]), recipe["states"]
    parts = [rng.poisson(rng.choice([2.0, 9.0], n)).astype(float) for n in recipe["lengths"]]
    model = fo.models.PoissonHMM(states)
    even = np.full((states, states), 1 / states)
    params = {"initial": even[0], "transition": even, "rate": np.array([[2.0], [8.0]])[:states]}
    if recipe["fit"]:
        params = fo.fit(model, parts, restarts=1, optima=0, progress=False).params
    fits = [fo.fit_at(model, _named(recipe["form"], some), params)
            for some in (parts, [parts[k] for k in order])]  # fmt: skip
    expected = sum(
        Chain.of(params, log_densities("poisson", params, part[:, None])).log_likelihood(part >= 0)
        for part in parts
    )
    close("log-likelihood", fits[1].log_likelihood, expected, sum(len(part) for part in parts) * 10.0)
    for what in ("decode", "posterior"):
        ends = [
            np.cumsum([len(part) for part in some])[:-1] for some in (parts, [parts[k] for k in order])
        ]
        both = [getattr(fit, what)() for fit in fits]
        if what == "posterior":
            both = [np.split(np.asarray(one), end) for one, end in zip(both, ends, strict=True)]
        for new, old in enumerate(order):
            close(f"{what} of {new}", both[1][new], both[0][old])
    groups = np.full(len(parts), "rest")
    for number, out in enumerate(recipe["folds"]):
        groups[out] = f"fold {number}"
    if len(set(groups)) < 2:
        return
    method = recipe["method"] if recipe["fit"] else "none"
    cvs = [_crossed(fit, fo.folds.structures(fit.data, groups=some), method, recipe["loss"])
           for fit, some in zip(fits, (groups, groups[order]), strict=True)]  # fmt: skip
    _judge_losses(*cvs)


def _judge_losses(first: fo.CVResult, second: fo.CVResult) -> None:
    """Losses of folds, in whichever order these are."""
    near("losses of folds", np.sort(second.folds["loss"]), np.sort(first.folds["loss"]))
    near("estimate", second.estimate, first.estimate)


def _named(form: str, parts: list[np.ndarray]) -> Any:
    if form == "arrays":
        return parts
    tables = [pd.DataFrame({"y": part}) for part in parts]
    return tables if form == "table" else {f"s{n}": table for n, table in enumerate(tables)}


def _map(recipe: dict[str, Any], rng: np.random.Generator) -> None:
    order, edges = np.array(recipe["order"]), sorted({tuple(sorted(pair)) for pair in recipe["edges"]})
    place, classes = np.argsort(order), recipe["states"]
    x = rng.poisson(rng.choice([2.0, 9.0], SITES)).astype(float)
    params: dict[str, Any] = {"rate": np.array([2.0, 8.0])[:classes]}
    found = []
    for number, some in enumerate((edges, [(int(place[i]), int(place[j])) for i, j in edges])):
        data = x if number == 0 else x[order]
        graph = fo.graph(some, n_sites=SITES)
        if recipe["form"] == "names":
            graph = nx.Graph()
            graph.add_nodes_from([f"s{n}" for n in range(SITES)])
            graph.add_edges_from([(f"s{i}", f"s{j}") for i, j in some])
        model = fo.models.PottsMixture(graph, classes, "poisson", beta=0.5)
        if number == 0 and recipe["fit"]:
            params = fo.fit(model, data, restarts=1, optima=0, progress=False).params
        fit = fo.fit_at(model, data, params)
        table = log_densities("poisson", {"rate": np.reshape(params["rate"], (-1, 1))}, data[:, None])
        field, everyone = Field(table, some, 0.5), np.ones(SITES, bool)
        close("log-likelihood", fit.log_likelihood, field.log_likelihood(everyone), 60.0)
        close("posterior", np.asarray(fit.posterior()), np.exp(field.posterior(everyone)), 60.0)
        sets = [sorted(one) for one in recipe["folds"]]
        folds = fo.folds.sites(sets if number == 0 else _after(sets, order), data)
        method = recipe["method"] if recipe["fit"] else "none"
        found.append(_crossed(fit, folds, method, recipe["loss"]))
    _judge_moved(found[0], found[1], place)


_PLACES = {"points": _points, "sequences": _sequences, "map": _map}
