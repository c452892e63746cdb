"""State-space models: structural time series and what else is linear and Gaussian."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fitonce.core.arguments import require_choice
from fitonce.core.wording import listed
from fitonce.data.reading import Columns, read_file
from fitonce.models.space.factors import DynamicFactor
from fitonce.models.space.sarimax import SARIMAX
from fitonce.models.space.structural import LEVELS, Structural
from fitonce.models.space.system import SpaceModel
from fitonce.objectives.family import EXPOSURE, Family, Loaded, NamedModel, Option
from fitonce.objectives.space.objective import space_objective


def _load(path: Path, columns: Columns, options: Mapping[str, Any]) -> Loaded:
    size = options.get(EXPOSURE.name)
    beside = (*columns.covariates, *(() if size is None or size in columns.covariates else (size,)))
    found = read_file(path, replace(columns, covariates=beside))
    exog = tuple(name for name in columns.covariates if name != size)
    return Loaded(found.data, found.notes, str(found.data), {"covariates": exog})


_LEVEL = Option(
    "level", str, "local", f"Level of a series: none, {', '.join(LEVELS)}",
    several="Such as none,local,trend",
)  # fmt: skip
_SEASONAL = Option(
    "seasonal", str, "none", "Period of the seasons of a series, in steps",
    several="Such as none,12",
)  # fmt: skip
_HARMONICS = Option(
    "harmonics", int, 0, "Waves that seasons are made of; 0: a free effect for each season",
    several="Such as 1..4", noun="harmonic",
)  # fmt: skip
_CYCLE = Option(
    "cycle", str, "no", "Whether a series has a wave of a period that is estimated: yes or no",
    several="Such as no,yes",
)  # fmt: skip
_AR = Option("ar", int, 0, "Order of a stationary autoregression in a series", several="Such as 0..2")

_NOISE = Option(
    "noise", str, "no", "Whether counts vary more than their kind does by itself: yes or no",
    several="Such as no,yes",
)  # fmt: skip
_PARTS = (_LEVEL, _SEASONAL, _HARMONICS, _CYCLE, _AR)
_FACTORS = Option(
    "factors", int, 1, "Factors that several series follow", several="Such as 1..3",
    least=1, noun="factor",
)  # fmt: skip
_FACTOR_ORDER = Option(
    "factor_order", int, 1, "Steps that factors look back", several="Such as 1..2", least=1
)
_ERROR_ORDER = Option(
    "error_order", int, 0, "Steps that the error of each series looks back", several="Such as 0..1"
)
_ORDERS = tuple(
    Option(name, int, default, help, several="Such as 0..2")
    for name, default, help in (  # noqa: A001
        ("p", 1, "Order of the autoregression of sarimax"),
        ("d", 0, "Order of the differences of sarimax"),
        ("q", 0, "Order of the moving average of sarimax"),
        ("seasonal_p", 0, "Order of its seasonal autoregression, with the period --seasonal"),
        ("seasonal_d", 0, "Order of its seasonal differences"),
        ("seasonal_q", 0, "Order of its seasonal moving average"),
    )
)
_INTERCEPT = Option(
    "intercept", str, "no", "Whether sarimax has an intercept: yes or no", several="Such as no,yes"
)


def _structural(options: Mapping[str, Any], data: Any, observations: str = "gaussian") -> Structural:
    _require_one_column(
        "structural" if observations == "gaussian" else f"structural-{observations}", data
    )
    level = options["level"].replace("-", " ")
    words = [name for name in (_CYCLE.name, _NOISE.name) if name in options]
    for name in words:
        require_choice(name, options[name], ("yes", "no"))
    size = options.get(EXPOSURE.name)
    return Structural(
        level=None if level == "none" else level,
        seasonal=_period(options["seasonal"]),
        harmonics=options["harmonics"] or None,
        cycle=options["cycle"] == "yes",
        ar=options["ar"],
        noise=options[_NOISE.name] == "yes" if observations != "gaussian" else None,
        exog=options.get("covariates", data.covariate_names),
        observations=observations,
        exposure=size if observations == "poisson" else None,
        trials=size if observations == "binomial" and size is not None else 1,
    )


def _require_one_column(name: str, data: Any) -> None:
    if len(data.channels) > 1:
        raise ValueError(
            f"--model {name} is for one column, got {listed(data.channels)}; "
            "choose one with --columns NAME"
        )


def _counts(observations: str, title: str) -> NamedModel:
    """A structural time series of counts."""
    return NamedModel(
        f"structural-{observations}",
        title,
        partial(_structural, observations=observations),
        (*_PARTS, _NOISE, EXPOSURE),
        covariates=True,
        idle=_idle,
    )


def _factor(options: Mapping[str, Any], data: Any) -> DynamicFactor:
    return DynamicFactor(
        options["factors"],
        options["factor_order"],
        options["error_order"],
        exog=options.get("covariates", data.covariate_names),
    )


def _sarimax(options: Mapping[str, Any], data: Any) -> SARIMAX:
    _require_one_column("sarimax", data)
    orders = tuple(options[one.name] for one in _ORDERS)
    season = _period(options[_SEASONAL.name])
    require_choice(_INTERCEPT.name, options[_INTERCEPT.name], ("yes", "no"))
    if season is not None and not isinstance(season, int):
        raise ValueError(f"--seasonal of sarimax must be a whole number of steps, got {season}")
    if any(orders[3:]) != (season is not None):
        raise ValueError(
            "seasons of sarimax need --seasonal, their period in steps, and one of --seasonal-p, "
            f"--seasonal-d and --seasonal-q above 0, got --seasonal {options[_SEASONAL.name]} and "
            f"{', '.join(map(str, orders[3:]))}"
        )
    return SARIMAX(
        orders[:3],
        (*orders[3:], season or 0),
        trend="c" if options[_INTERCEPT.name] == "yes" else "n",
        exog=options.get("covariates", data.covariate_names),
    )


def _period(text: str) -> float | None:
    """Of seasons."""
    if text == "none":
        return None
    try:
        found = float(text)
    except ValueError:
        raise ValueError(f"seasonal must be a period in steps or none, got '{text}'") from None
    return int(found) if found.is_integer() else found


def _idle(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without seasons there are no waves of them."""
    return {_HARMONICS.name: 0} if options["seasonal"] == "none" else {}


def _idle_orders(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without a season there are no orders of it."""
    seasonal = [one.name for one in _ORDERS[3:]]
    return dict.fromkeys(seasonal, 0) if options[_SEASONAL.name] == "none" else {}


SPACES = Family(
    "state-space",
    lambda model: isinstance(model, SpaceModel),
    space_objective,
    pictured=lambda model: True,
    models=(
        NamedModel(
            "structural",
            "numbers in time: level, seasons, cycle and regression add up",
            _structural,
            _PARTS,
            covariates=True,
            idle=_idle,
        ),
        _counts("poisson", "counts in time: level, seasons and others add up to the log rate"),
        _counts("binomial", "successes in time: level, seasons and others add up to the log-odds"),
        NamedModel(
            "sarimax",
            "numbers in time: autoregression and moving average of differences, with seasons",
            _sarimax,
            (*_ORDERS, _SEASONAL, _INTERCEPT),
            covariates=True,
            idle=_idle_orders,
            instead={"order": "--p, --d and --q", "ar": "--p"},
        ),
        NamedModel(
            "dynamic-factor",
            "several series in time that follow a few common factors",
            _factor,
            (_FACTORS, _FACTOR_ORDER, _ERROR_ORDER),
            covariates=True,
        ),
    ),
    load=_load,
)
