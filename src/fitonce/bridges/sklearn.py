"""Models as estimators of scikit-learn, for `clone`, `GridSearchCV` and pipelines.

What an entry of X is decides what scikit-learn's own splitters leave out. In a list, or an array of
three dimensions, it is a sequence. In a matrix or a DataFrame it is a step of one sequence: what is left
after steps are taken out is joined as if nothing had been there, and those steps are scored as a
sequence of their own. `Estimator.cross_validate`, from one fit, treats them as missing and keeps what is
on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from fitonce.crossval.cross_validate import cross_validate
from fitonce.data.attributes import are_attributes
from fitonce.data.labelled import labelled
from fitonce.data.sequences import Collection, in_columns_of, sequences
from fitonce.fitting.fit import Fit, fit
from fitonce.fitting.optima import DEFAULT_OPTIMA
from fitonce.folds import Folds, from_splitter
from fitonce.objectives.abilities import HasContinuousStates
from fitonce.objectives.families import family_of
from fitonce.results.result import CVResult

try:
    from sklearn.base import BaseEstimator, DensityMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise ImportError("fo.sklearn needs scikit-learn 1.6 or newer: pip install scikit-learn") from None


class Estimator(TransformerMixin, DensityMixin, BaseEstimator):  # type: ignore[misc]
    """A model of sequences as an estimator of scikit-learn.

    X is an array (steps, channels) or a DataFrame of one sequence; or an array (sequences, steps,
    channels) or a list of arrays or DataFrames, one for each sequence. NaN is missing. Models of labels
    (`LinearChainCRF`) take features of sequences as X and their labels as y, as `fo.labelled` reads
    them; other models ignore y. Columns of lists of tables are told by name, in any order; those of one
    table must be in the order of the fit, as scikit-learn demands.

    Fields of the model are parameters of the estimator: `model__n_states`, `model__emission`.

    Args:
        model: an HMM, autoregression, CRF or state-space model of `fo.models`. States of the last are
            numbers: `transform` has their means, and there is no `predict`.
        restarts, seed, optima: of `fo.fit`.
        covariates: names of columns of the DataFrames that are covariates, see `fo.sequences`.

    Attributes:
        fit_: the `Fit`, with `forecast`, `sample`, `states`, `to_dataframe` and so on.
        n_features_in_: number of columns of X.
        feature_names_in_: their names, if all are text.
    """

    def __init__(
        self,
        model: Any,
        *,
        restarts: int | None = None,
        seed: int = 0,
        optima: int = DEFAULT_OPTIMA,
        covariates: Any = None,
    ) -> None:
        self.model = model
        self.restarts = restarts
        self.seed = seed
        self.optima = optima
        self.covariates = covariates

    def fit(self, X: Any, y: Any = None) -> Estimator:
        """Fit the model; y only for models of labels."""
        self.fit_ = self._fitted(self._read(X, y, reset=True))
        self.fitted_with_ = self._settings
        return self

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log-likelihood of an observed step, where X is one sequence, or of a sequence, where
        it holds several; of labels given features for models of labels. Higher is better."""
        check_is_fitted(self)
        data = self._read(X, y)
        if self._labels:
            return float(self.fit_.log_likelihood_of(data).mean())
        count = data.n_sequences if _are_several(X) else float(data.weights.sum())
        if not count:
            raise ValueError("score: X must have an observed value, got only missing ones")
        return float(self.fit_.log_likelihood_of(data).sum() / count)

    def predict(self, X: Any) -> Any:
        """The jointly most probable states (or tags) of the steps, an array; a list of them for several
        sequences."""
        self._require_classes("predict")
        found = self.fit_.decode(X if self._labels else self._read(X))
        return found if _are_several(X) or self._labels else found[0]

    def predict_proba(self, X: Any) -> Any:
        """(steps, K) probabilities of the states (or tags) given X; a list of them for several."""
        self._require_classes("predict_proba")
        return self._of_states(X)

    def transform(self, X: Any) -> Any:
        """`predict_proba`, as a step of a pipeline; with `set_output(transform="pandas")` a DataFrame
        with the index of X. Of state-space models: the means of `fit_.smoothed(X)`."""
        check_is_fitted(self)
        return self._of_states(X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of `transform`: state0, state1, ...; of state-space models those of the
        states, such as level."""
        check_is_fitted(self)
        if input_features is not None:
            known = getattr(self, "feature_names_in_", None)
            if known is not None and not np.array_equal(known, input_features):
                raise ValueError(f"input_features is not equal to feature_names_in_, {list(known)}")
            if len(input_features) != self.n_features_in_:
                raise ValueError(
                    "input_features should have length equal to number of features "
                    f"({self.n_features_in_}), got {len(input_features)}"
                )
        if isinstance(self.fit_.objective, HasContinuousStates):
            return np.array(self.fit_.smoothed().names, object)
        count = self.fit_.objective.state_probabilities(self.fit_.theta).shape[1]
        return np.array([f"state{k}" for k in range(count)], object)

    def cross_validate(
        self, X: Any, y: Any = None, *, cv: Any = None, groups: Any = None, **how: Any
    ) -> CVResult:
        """Cross-validate from one fit: `fo.cross_validate`. The estimator's own fit serves if it is of
        the same data. `to_sklearn()` of the result is the dict of scikit-learn's `cross_validate`.

        Args:
            X, y: as for `fit`.
            cv: a splitter of scikit-learn, a number of folds, a list of pairs of train and test indices,
                or `fo.folds`; None: 5 folds. Indices are of steps where X is one sequence, else of
                sequences.
            groups: of the splitter.
            **how: for `fo.cross_validate`: `method`, `loss`, `tolerance` and so on.
        """
        data = self._clone()._read(X, y, reset=True)
        known: Any = getattr(self, "fit_", None)
        same = known is not None and self.fitted_with_ == self._settings and _alike(known.data, data)
        known = known if same else self._fitted(data)
        if not isinstance(cv, Folds):
            over: Any = "sequences" if _are_several(X) or self._labels else "sites"
            cv = from_splitter(5 if cv is None else cv, data, over=over, groups=groups)
        return cross_validate(known, cv, **how)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; if `deep`, also the fields of the model and of what they hold."""
        found = super().get_params(deep=False)
        return found | (_nested("model__", self.model) if deep else {})

    def set_params(self, **params: Any) -> Estimator:
        """Set parameters by name, fields of the model too: `set_params(model__n_states=3)`."""
        inside = {name: params.pop(name) for name in list(params) if name.startswith("model__")}
        for name in params:
            if name not in super().get_params(deep=False):
                known = list(self.get_params())
                raise ValueError(f"invalid parameter {name!r} for an Estimator; valid ones are {known}")
            setattr(self, name, params[name])
        if inside:
            self.model = _changed(self.model, {name[7:]: value for name, value in inside.items()})
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = self._labels
        tags.transformer_tags.preserves_dtype = []
        return tags

    @property
    def _labels(self) -> bool:
        """Whether the model is of labels given features."""
        try:
            return family_of(self.model).name == "labels"
        except ValueError:  # not a model: fit will say so
            return False

    @property
    def _settings(self) -> tuple[Any, ...]:
        """What a fit depends on, besides the data."""
        return self.model, self.restarts, self.seed, self.optima

    def _require_classes(self, verb: str) -> None:
        """Raise where the hidden states are numbers."""
        check_is_fitted(self)
        if isinstance(self.fit_.objective, HasContinuousStates):
            raise ValueError(
                f"{verb} needs a model with classes or tags, and states of {self.model} are numbers. "
                "Use transform, or fit_.forecast for steps ahead"
            )

    def _of_states(self, X: Any) -> Any:
        """(steps, K) probabilities of states, or means of states that are numbers; a list of them for
        several sequences."""
        objective = self.fit_.objective.for_prediction(X if self._labels else self._read(X))
        if isinstance(objective, HasContinuousStates):
            whole = objective.smoothed(self.fit_.theta).mean
        else:
            whole = objective.state_probabilities(self.fit_.theta)
        if _are_several(X) or self._labels:
            return np.split(whole, objective.collection.offsets[1:])
        return whole

    def _clone(self) -> Estimator:
        """The same parameters without what was learned."""
        return type(self)(**self.get_params(deep=False))

    def _fitted(self, data: Any) -> Fit:
        return fit(self.model, data, restarts=self.restarts, seed=self.seed, optima=self.optima)

    def _read(self, X: Any, y: Any = None, *, reset: bool = False) -> Collection:
        """X as the model reads it; `reset`: at a fit, where the columns become those expected."""
        if family_of(self.model).name not in ("chain", "labels", "state-space"):
            raise ValueError(
                f"an Estimator takes a model of sequences or of labels, got {self.model}; use fo.fit "
                "and fo.cross_validate"
            )
        if self._labels:
            if y is None:
                raise ValueError(f"{type(self.model).__name__} requires y, the labels, got None")
            known: Any = None if reset else self.fit_.data
            named = known is not None and are_attributes(list(X))
            return labelled(
                X, y, tags=None if known is None else known.tags,
                attributes=known.attributes if named else None,
            )  # fmt: skip
        several = _are_several(X)
        read = sequences(X if several else self._one(X, reset), covariates=self.covariates)
        if several:
            read = read if reset else in_columns_of(self.fit_.data, read)
            self._expect(read, reset)
        return read

    def _one(self, X: Any, reset: bool) -> Any:
        """One sequence, checked as scikit-learn does, with the index and the columns of a DataFrame."""
        checked = validate_data(
            self, X, reset=reset, dtype=float, ensure_all_finite="allow-nan",
            ensure_min_samples=2 if reset else 1,
        )  # fmt: skip
        names = getattr(self, "feature_names_in_", None)
        index = X.index if isinstance(X, (pd.DataFrame, pd.Series)) else None
        return checked if names is None else pd.DataFrame(checked, index=index, columns=names)

    def _expect(self, read: Any, reset: bool) -> None:
        """Set or compare the columns of a list of sequences."""
        found = len(read.channels) + len(read.covariate_names)
        if reset:
            self.n_features_in_ = found
        elif found != self.n_features_in_:
            raise ValueError(
                f"X has {found} features, but the Estimator is expecting {self.n_features_in_} features"
            )


def _are_several(X: Any) -> bool:
    """Whether X holds sequences: a list of arrays or tables, an array of three dimensions, or what
    `fo.sequences` returned."""
    if isinstance(X, Collection) or getattr(X, "ndim", 0) == 3:
        return True
    return isinstance(X, (list, tuple)) and len(X) > 0 and all(hasattr(part, "shape") for part in X)


def _nested(prefix: str, value: Any) -> dict[str, Any]:
    """Fields of a dataclass and of the dataclasses in it, by name with double underscores."""
    if not is_dataclass(value) or isinstance(value, type):
        return {}
    found: dict[str, Any] = {}
    for one in fields(value):
        if one.init:
            found[prefix + one.name] = getattr(value, one.name)
            found |= _nested(f"{prefix}{one.name}__", getattr(value, one.name))
    return found


def _changed(value: Any, changes: Mapping[str, Any]) -> Any:
    """A dataclass with other fields, all at once: one may only be valid together with another."""
    own: dict[str, Any] = {}
    below: dict[str, dict[str, Any]] = {}
    known = [one.name for one in fields(value) if one.init] if is_dataclass(value) else []
    for key, new in changes.items():
        name, _, rest = key.partition("__")
        if name not in known:
            raise ValueError(f"{type(value).__name__} has no field {name!r}; it has {known}")
        if rest:
            below.setdefault(name, {})[rest] = new
        else:
            own[name] = new
    for name, some in below.items():
        own[name] = _changed(own.get(name, getattr(value, name)), some)
    return replace(value, **own)


def _alike(one: Any, other: Any) -> bool:
    """Whether two data sets are the same in all that they hold."""
    return type(one) is type(other) and all(
        _same(getattr(one, part.name), getattr(other, part.name)) for part in fields(one)
    )


def _same(one: Any, other: Any) -> bool:
    if all(map(sparse.issparse, (one, other))):
        first, second = one.tocoo(), other.tocoo()
        return first.shape == second.shape and not (first != second).nnz
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f" and other.dtype.kind == "f")
    if isinstance(one, pd.Index) and isinstance(other, pd.Index):
        return one.equals(other)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(type(one) is type(other) and one == other)
