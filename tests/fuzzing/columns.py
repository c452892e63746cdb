"""Tables with columns in another order than those of the fit, or with other names, at every door."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fitonce as fo
from fuzzing.chains import MADE, drawn
from fuzzing.judges import Chain, close, log_densities
from fuzzing.outcomes import MUST_BE

STEPS = 8
TAGS = ["a", "b"] * (STEPS // 2)


def judge(recipe: dict[str, Any]) -> None:
    """Raise unless a table whose columns were moved has the answer of one in order, and one with other
    columns is refused by name."""
    rng = np.random.default_rng(recipe["seed"])
    fit = FITS[recipe["family"]](recipe, rng)
    table = _values(recipe, rng)
    given = _changed(table.iloc[:, recipe["order"]], recipe)
    ask = _asker(recipe["door"])

    def work(one: pd.DataFrame) -> np.ndarray:
        return _flat(ask(fit, _framed(one, recipe["frame"])))

    wanted, found = [str(one) for one in recipe["names"]], [str(one) for one in given.columns]
    order = places_of(wanted, found)
    if recipe["family"] == "regression":  # whose covariates are found by name, whatever they are called
        order = _places_beside(wanted, found)
    if order is None:
        named = _differ(wanted, found) and recipe["family"] != "regression"
        others = sorted(set(wanted) ^ set(found)) if named else []
        words = [repr(name) if not name.strip() else name[:40] for name in others]
        must_refuse(lambda: work(given), *words)
    named = pd.DataFrame(given.to_numpy()[:, order], columns=recipe["names"])
    right = work(named)
    if recipe["door"] == "score" and recipe["family"] == "chain":
        densities = log_densities(recipe["emission"], fit.params, named.to_numpy(float))
        seen = ~np.isnan(named.to_numpy(float)).all(1)
        expected = Chain.of(fit.params, densities).log_likelihood(seen)
        close("score", right, [expected], float(np.abs(densities).sum()))
    answer = work(given)
    assert np.array_equal(answer, right, equal_nan=True), f"{recipe['door']}: {answer}, expected {right}"


def places_of(wanted: list[str], found: list[str]) -> list[int] | None:
    """Where columns are among those found: by name, or by position where one of both has numbers only;
    None: they must be refused."""
    if sorted(wanted) == sorted(found) and len(set(found)) == len(found):
        return [found.index(name) for name in wanted]
    same = wanted == found or not _differ(wanted, found)
    return list(range(len(found))) if same and len(wanted) == len(found) else None


def _places_beside(wanted: list[str], found: list[str]) -> list[int] | None:
    """The same of one channel and its covariates."""
    if not set(wanted[1:]) <= set(found):
        return None
    rest = [name for name in found if name not in wanted[1:]]
    if len(rest) + len(wanted) - 1 != len(found) or places_of(wanted[:1], rest) is None:
        return None
    return [found.index(name) for name in (*rest, *wanted[1:])]


def _differ(wanted: list[str], found: list[str]) -> bool:
    """Whether both have names, so that others are others."""
    numbers = [[f"{start}{n}" for n in range(len(wanted))] for start in ("x", "u", "")]
    numbers += [[f"{start}{n}" for n in range(len(found))] for start in ("x", "u", "")]
    return wanted not in numbers and found not in numbers


def must_refuse(work: Callable[[], Any], *words: str) -> None:
    """Raise what work raises, if that says these words; it must raise."""
    try:
        work()
    except ValueError as error:
        for word in words:
            if word not in str(error):
                raise AssertionError(f"the refusal: without {word!r}: {error}") from error
        error.add_note(MUST_BE)
        raise
    raise AssertionError(f"accepted: must be refused with {words}")


def _changed(table: pd.DataFrame, recipe: dict[str, Any]) -> pd.DataFrame:
    """With one column more, less or called otherwise."""
    how, which, new = recipe["change"], recipe["which"], recipe["new name"]
    called = list(table.columns)
    if how == "another name":
        called[which] = new
        return table.set_axis(called, axis=1)
    if how == "one less" and len(called) > 1:
        return table.drop(columns=called[which])
    if how in ("one more", "one twice") and recipe["frame"] == "pandas":
        more = new if how == "one more" else called[which]
        return pd.concat([table, table.iloc[:, which]], axis=1).set_axis([*called, more], axis=1)
    return table


def _framed(table: pd.DataFrame, frame: str) -> Any:
    if frame == "pandas":
        return table
    import polars

    columns = {str(name): table.iloc[:, place].to_numpy() for place, name in enumerate(table.columns)}
    return polars.DataFrame(columns)


def _flat(found: Any) -> np.ndarray:
    parts = found if isinstance(found, list) else [found]
    return np.concatenate([np.asarray(part).ravel() for part in parts])


# --- doors -----------------------------------------------------------------------------------------


def _saved(fit: Any, new: Any, data: bool = True) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = fit.save(Path(folder) / "fit.json", data=data)
        return fo.load(path, **({} if data else {"data": fit.data})).log_likelihood_of(new)


def _asker(door: str) -> Callable[[Any, Any], Any]:
    def chain(fit: Any) -> Any:
        return getattr(fit, "fit_", fit)

    doors: dict[str, Callable[[Any, Any], Any]] = {
        "score": lambda fit, new: chain(fit).score(new),
        "score, read": lambda fit, new: fit.score(fo.sequences(new)),
        "score, list": lambda fit, new: fit.score([new, new]),
        "score, dict": lambda fit, new: fit.score({"a": new, "b": new}),
        "score, lengths": lambda fit, new: fit.score(new, lengths=[3, STEPS - 3]),
        "likelihood of": lambda fit, new: fit.log_likelihood_of(new),
        "decode": lambda fit, new: fit.decode(new),
        "predict": fo.predict,
        "marginals": fo.marginals,
        "saved": _saved,
        "saved without data": lambda fit, new: _saved(fit, new, data=False),
        "smoothed": lambda fit, new: fit.smoothed(new).mean,
        "Estimator.score": lambda fit, new: fit.score([new]),
        "Estimator.predict": lambda fit, new: fit.predict([new]),
        "Estimator.predict_proba": lambda fit, new: fit.predict_proba([new]),
        "Estimator.transform": lambda fit, new: fit.transform([new]),
        "predict of tags": lambda fit, new: [np.array(fo.predict(fit, [new])[0]) == "a"],
        "marginals of tags": lambda fit, new: fo.marginals(fit, [new]),
        "score of tags": lambda fit, new: fit.score(([new], [TAGS])),
        "score of tags, read": lambda fit, new: fit.score(fo.labelled([new], [TAGS])),
    }
    return doors[door]


# --- fits ------------------------------------------------------------------------------------------


def _values(recipe: dict[str, Any], rng: np.random.Generator) -> pd.DataFrame:
    """(STEPS, channels) observations, some missing, of columns that differ."""
    shape = (STEPS, len(recipe["names"]))
    kind = recipe["emission"] if recipe["family"] == "chain" else "gaussian"
    made = {
        "poisson": lambda: rng.poisson(5.0, shape).astype(float),
        "gamma": lambda: rng.gamma(2.0, 3.0, shape),
        "categorical": lambda: rng.integers(0, 4, shape).astype(float),
    }
    values = made.get(kind, lambda: 5.0 * rng.normal(size=shape))()
    if recipe["family"] == "product":
        values = np.abs(values)
    if recipe["missing"] and recipe["family"] not in ("tags", "regression"):
        out = rng.random(shape if kind != "full" else (STEPS, 1)) < 0.2
        values[np.broadcast_to(out, shape)] = np.nan
        values[0] = np.nan_to_num(values[0], nan=1.0)
    return pd.DataFrame(values, columns=recipe["names"])


def _chain(recipe: dict[str, Any], rng: np.random.Generator) -> fo.Fit:
    kind, count = recipe["emission"], len(recipe["names"])
    params = drawn(kind, 2, count, {"seed": recipe["seed"], "far": 1.0, "zeros": 0.0, "options": {}})
    return fo.fit_at(fo.models.HMM(2, MADE[kind]()), _values(recipe, rng), params)


def _estimator(recipe: dict[str, Any], rng: np.random.Generator) -> Any:
    table = _values(recipe | {"missing": False}, rng)
    return fo.sklearn.Estimator(fo.models.GaussianHMM(2), restarts=1, optima=0).fit([table])


@cache
def _fitted(model: Any) -> dict[str, np.ndarray]:
    """Parameters of a model of three columns, which are compiled once."""
    table = _values({"family": "product", "names": list("abc"), "missing": False, "emission": ""},
                    np.random.default_rng(0))  # fmt: skip
    return fo.fit(model, table, restarts=1, optima=0, progress=False).params


def _product(recipe: dict[str, Any], rng: np.random.Generator) -> fo.Fit:
    a, b, c = recipe["names"]
    table = _values(recipe, rng)
    params = {"initial": [0.4, 0.6], "transition": [[0.9, 0.1], [0.3, 0.7]]}
    params |= {f"{b}.mean": [[2.0], [5.0]], f"{b}.shape": [[1.0], [3.0]]}
    params |= {f"{c}+{a}.mean": [[2.0, 7.0], [5.0, 1.0]], f"{c}+{a}.variance": [[1.0, 9.0], [4.0, 2.0]]}
    model = fo.models.HMM(2, fo.models.Product({b: "gamma", (c, a): "gaussian"}))
    return fo.fit_at(model, table, params)


def _regression(recipe: dict[str, Any], rng: np.random.Generator) -> fo.Fit:
    known = list(map(str, recipe["names"][1:]))
    table = _values(recipe | {"missing": False}, rng).set_axis([str(n) for n in recipe["names"]], axis=1)
    params = {"initial": [0.4, 0.6], "transition": [[0.9, 0.1], [0.3, 0.7]], "mean": [[0.0], [5.0]]}
    params |= {"coefficients": rng.normal(size=(2, 1, 2)), "covariance": [[[1.0]], [[4.0]]]}
    model = fo.models.HMM(2, fo.models.LinearRegression(regressors=tuple(known)))
    return fo.fit_at(model, fo.sequences(table, covariates=known), params)


def _factors(recipe: dict[str, Any], rng: np.random.Generator) -> fo.Fit:
    model = fo.models.DynamicFactor(1)
    return fo.fit_at(model, _values(recipe, rng), _fitted(model))


def _tags(recipe: dict[str, Any], rng: np.random.Generator) -> fo.Fit:
    data = fo.labelled([_values(recipe, rng) for _ in range(2)], [TAGS, TAGS[::-1]])
    count = len(recipe["names"])
    params: dict[str, Any] = {"weights": rng.normal(size=(count, 2))}
    params["transition"] = rng.normal(size=(2, 2))
    params |= {name: rng.normal(size=2) for name in ("start", "end", "bias")}
    return fo.fit_at(fo.models.LinearChainCRF(), data, params)


FITS: dict[str, Callable[[dict[str, Any], np.random.Generator], Any]] = {
    "chain": _chain, "estimator": _estimator, "product": _product, "regression": _regression,
    "factors": _factors, "tags": _tags,
}  # fmt: skip
