"""Results in the forms of other libraries: ArviZ's `ELPDData`, scikit-learn's dict of scores.

Neither library is needed for anything else, so they are imported here, when asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fitonce.core.wording import counted
from fitonce.results.standard_errors import Terms, spread_of

if TYPE_CHECKING:
    from fitonce.results.result import CVResult


def arviz_elpd(cv: CVResult) -> Any:
    """The result as `ELPDData` of the ArviZ that is installed; see `CVResult.to_arviz`."""
    _require_densities(cv)
    rows = _terms(cv)
    count = len(rows)
    terms = Terms(rows["loss"].to_numpy(), np.full(count, 1.0 / count), rows["cluster"].to_numpy())
    se = count * spread_of(terms, cv.memory).se if np.isfinite(cv.se) else float("nan")
    apart = len(np.unique(rows["cluster"])) == count and np.isnan(cv.memory)
    values = {
        "elpd": -float(rows["loss"].sum()),
        "se": float(se),
        "p": float((rows["loss"] - rows["control"]).sum()),
        "n_samples": 1,  # one value of the parameters
        "n_data_points": count,
        "warning": bool(not apart or (cv.folds["verdict"] == "bad").any() or not cv.fit.ok),
        "scale": "log",
    }
    single = len(cv.folds) == count and (cv.folds["size"] == 1).all()
    try:
        import arviz
    except ImportError:
        raise ImportError("to_arviz needs ArviZ: pip install arviz") from None
    elpd_i = _named(cv, rows)
    if int(arviz.__version__.split(".")[0]) < 1:
        return _as_series(arviz, values, elpd_i)
    return _as_record(values, elpd_i, None if single else len(cv.folds))


def _require_densities(cv: CVResult) -> None:
    """Raise unless every point has one log-density."""
    if cv.loss not in ("pointwise", "joint"):
        raise ValueError(
            f"to_arviz needs log-densities, the loss 'pointwise' or 'joint', got the loss '{cv.loss}'"
        )
    if cv.n_failed:
        raise ValueError(
            f"to_arviz needs a number in every fold, but {counted(cv.n_failed, 'fold')} of "
            f"{len(cv.folds):,} has none: ArviZ would pair other points; see cv.folds"
        )
    if cv.loss == "joint" and int(cv.folds["size"].sum()) > (cv.n_scored or np.inf):
        raise ValueError(
            "to_arviz of joint losses needs folds that do not overlap, such as fo.folds.kfold: their "
            f"log-densities are summed; got {cv.left_out}"
        )


def _terms(cv: CVResult) -> pd.DataFrame:
    """One row per point, sequence or (for joint losses) fold: `loss` and `control`, means over the folds
    that score it, and its `cluster`, `sequence`, `time` and `site`."""
    rows = cv.pointwise
    if cv.loss == "joint":
        return rows
    by = "site" if (rows["site"] >= 0).all() else "sequence"
    if not rows[by].duplicated().any():
        return rows
    first = rows.groupby(by)[["sequence", "time", "site", "cluster"]].first()
    return rows.groupby(by)[["loss", "control"]].mean().assign(**first)


def _named(cv: CVResult, rows: pd.DataFrame) -> Any:
    """Log-densities as a DataArray, with the user's names of points or sequences if there are any."""
    import xarray

    joint = cv.loss == "joint"
    dim = "fold" if joint else "site" if (rows["site"] >= 0).all() else "sequence"
    labels = rows[dim].to_numpy()
    if cv.fit.places is not None and not joint:
        where = (rows[name].to_numpy() for name in ("sequence", "time", "site"))
        labels = np.array(cv.fit.places.places(*where), object)
    return xarray.DataArray(-rows["loss"].to_numpy(), {dim: labels}, (dim,), name="elpd_i")


def _as_series(arviz: Any, values: dict[str, Any], elpd_i: Any) -> Any:
    """ArviZ 0.x: a Series, whose names say by their ending that this is cross-validation."""
    named = {f"{name}_loo" if name in ("elpd", "p") else name: value for name, value in values.items()}
    order = ["elpd_loo", "se", "p_loo", "n_samples", "n_data_points", "warning", "scale"]
    content = [*(named[name] for name in order), elpd_i, None]
    return arviz.stats.ELPDData(data=content, index=[*order, "loo_i", "good_k"])


def _as_record(values: dict[str, Any], elpd_i: Any, n_folds: int | None) -> Any:
    """ArviZ 1.x: leave-one-out, or so many folds."""
    import arviz_stats

    kind = "ELPDDataLOO" if n_folds is None else "ELPDDataLOOKFold"
    if not hasattr(arviz_stats, kind):
        have = arviz_stats.__version__
        raise ImportError(f"to_arviz needs arviz-stats 1.3.3 or newer with ArviZ 1.x, got {have}")
    more = {} if n_folds is None else {"n_folds": n_folds}
    return getattr(arviz_stats, kind)(**values, good_k=None, elpd_i=elpd_i, **more)


def sklearn_scores(cv: CVResult, folds: Any = None) -> dict[str, Any]:
    """The result as the dict of scikit-learn's `cross_validate`; see `CVResult.to_sklearn`."""
    count = len(cv.folds)
    scores = np.where(cv.folds["ok"], -cv.folds["loss"].to_numpy(), np.nan)
    found: dict[str, Any] = {
        "fit_time": np.full(count, cv.seconds / count),
        "score_time": np.zeros(count),
        "test_score": scores,
    }
    if folds is None:
        return found
    given = getattr(folds, "fingerprint", None)
    if given is None or given != cv.fingerprint.split()[0]:
        raise ValueError(
            f"folds must be those of the result, '{cv.left_out}', made from the same data, got "
            f"{folds if given else type(folds).__name__}"
        )
    everything = np.flatnonzero(folds.base)
    train = [np.setdiff1d(everything, dropped) for dropped in folds.dropped]
    return found | {"indices": {"train": train, "test": [np.asarray(part) for part in folds.scored]}}
