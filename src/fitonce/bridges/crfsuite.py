"""Fits of CRFsuite: the same model, parameters and objective.

Neither CRFsuite nor sklearn-crfsuite need be installed: what is read is the model file that they write,
whose numbers have all digits (those of `state_features_` have six decimals).
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fitonce.core.arguments import naming, read_path, shown
from fitonce.core.numerics import is_number
from fitonce.core.wording import counted
from fitonce.core.writing import is_file
from fitonce.data.labelled import Labelled, labelled
from fitonce.fitting.fit import Fit, fit_at
from fitonce.models.crf import LinearChainCRF

_HEADER, _CHUNK, _NAMES = struct.Struct("<4sI4s9I"), 12, struct.Struct("<4s5I")
_FEATURE = np.dtype([("kind", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
_STATE, _TRANSITION = 0, 1  # kinds of features
_OPTIONS = {"c1": 0.0, "c2": 1.0, "algorithm": "lbfgs", "min_freq": 0.0}  # CRFsuite's own defaults
_OPTIONS |= {"all_possible_states": False, "all_possible_transitions": False}


def from_crfsuite(model: Any, X: Any, y: Any, **options: Any) -> Fit:
    """A `Fit` at the parameters of a model that CRFsuite trained by L-BFGS, whose objective is that of
    the training: -log p(y | X) + c2 |w|^2.

    The status says how far the training stopped from the minimum; `fit.polish()` goes on to it. There
    are no biases, start and end scores, unless among the attributes. What does not occur in the data
    has no weight (or has, with `all_possible_states` and `all_possible_transitions`).

    Args:
        model: a fitted `sklearn_crfsuite.CRF`, or the path of a model file of CRFsuite.
        X, y: the data that it was trained with: attributes, as dicts or lists of text, and labels.
        options: of the training, for a model file, which does not say them: c2, min_freq,
            all_possible_states, all_possible_transitions; by default those of CRFsuite.
    """
    path, used = _located(model, options)
    _refuse(used)
    found = _read(path)
    with naming("X and y"):
        data = labelled(X, y, tags=found.labels)
    made = LinearChainCRF(
        scale=float(np.sqrt(0.5 / used["c2"])),
        biases=False,
        all_possible_states=bool(used["all_possible_states"]),
        all_possible_transitions=bool(used["all_possible_transitions"]),
        min_freq=float(used["min_freq"]),
    )
    return fit_at(made, data, _params(found, data, made))


def _located(model: Any, options: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    """The model file, and the options of the training."""
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise ValueError(f"options of from_crfsuite are {', '.join(_OPTIONS)}, got {', '.join(unknown)}")
    if isinstance(model, (str, Path)):
        return read_path("model", model), _OPTIONS | options
    if not hasattr(model, "modelfile"):
        raise ValueError(
            "from_crfsuite reads a sklearn_crfsuite.CRF or the path of a model file, got "
            f"{type(model).__name__}"
        )
    if options:
        raise ValueError(f"a CRF has its own options, got {', '.join(options)} as well")
    path = Path(model.modelfile.name or "")
    if not path.is_file():
        raise ValueError("the CRF must be fitted first: it has no model file")
    own = {name: getattr(model, name, None) for name in _OPTIONS}
    return path, {name: _OPTIONS[name] if own[name] is None else own[name] for name in _OPTIONS}


def _refuse(used: dict[str, Any]) -> None:
    if used["algorithm"] != "lbfgs":
        raise ValueError(
            f"algorithm='{used['algorithm']}' stops where it stops and minimises nothing that could be "
            "cross-validated from one fit; train with algorithm='lbfgs'"
        )
    for name in ("c1", "c2"):
        if not (is_number(used[name]) and used[name] >= 0):
            raise ValueError(f"{name} must be a number of at least 0, got {shown(used[name])}")
    if used["c1"] > 0:
        raise ValueError(
            f"c1={used['c1']:g} makes the objective one with corners, at which there are no derivatives "
            "to expand; train with c1=0 and c2 alone"
        )
    if not 5e-13 <= used["c2"] <= 5e11:
        raise ValueError(
            f"c2 must be positive, got {used['c2']:g}: without it, weights of attributes that occur "
            "with one label only have their minimum at infinity"
        )


class _Stored(NamedTuple):
    """A model file: names by number, and the features (see `_FEATURE`)."""

    labels: tuple[str, ...]
    attributes: tuple[str, ...]
    features: np.ndarray


def _read(path: Path) -> _Stored:
    """The features and names in a model file of CRFsuite (`crf1d_model.c`)."""
    if not is_file(path):
        raise ValueError(f"there is no model file {path.name:.200}")
    content = path.read_bytes()
    if len(content) < _HEADER.size or content[:4] != b"lCRF":
        raise ValueError(f"{path.name} must be a model file of CRFsuite, which begins with lCRF")
    _, size, *_ = _HEADER.unpack_from(content)
    if len(content) != size:
        raise ValueError(
            f"{path.name} must be a whole model file of CRFsuite, of {size:,} bytes as its header says, "
            f"got {len(content):,}"
        )
    try:
        found = _parsed(content)
    except (struct.error, ValueError) as error:  # UnicodeDecodeError among them
        raise ValueError(
            f"{path.name} must be a model file of CRFsuite, but what it holds cannot be read ({error})"
        ) from None
    return found


def _parsed(content: bytes) -> _Stored:
    """Raises struct.error or ValueError where parts are not what the format says."""
    *_, labels, attributes, at, labels_at, attributes_at, _, _ = _HEADER.unpack_from(content)
    kind, size, count = struct.unpack_from("<4s2I", content, at)
    if kind != b"FEAT" or size != _CHUNK + count * _FEATURE.itemsize:
        raise ValueError("its features are not where its header says")
    features = np.frombuffer(content, _FEATURE, count, at + _CHUNK)
    sources = np.where(features["kind"] == _STATE, attributes, labels)
    known = np.isin(features["kind"], (_STATE, _TRANSITION)) & np.isfinite(features["weight"])
    if not (known & (features["source"] < sources) & (features["target"] < labels)).all():
        raise ValueError("a feature has no such label or attribute, or no finite weight")
    return _Stored(
        _names(content, labels_at, labels), _names(content, attributes_at, attributes), features
    )


def _names(content: bytes, at: int, count: int) -> tuple[str, ...]:
    """Texts by number, from a database that also finds the numbers of texts (`cqdb.c`)."""
    kind, *_, size, offset = _NAMES.unpack_from(content, at)
    if kind != b"CQDB" or size < count:
        raise ValueError("its names are not where its header says")
    found = []
    for place in np.frombuffer(content, "<u4", size, at + offset)[:count]:
        _, length = struct.unpack_from("<2I", content, at + int(place))
        start = at + int(place) + 8
        if content[start + length - 1 : start + length] != b"\0":
            raise ValueError("a name does not end")
        found.append(content[start : start + length - 1].decode())  # ends with a zero
    return tuple(found)


def _params(found: _Stored, data: Labelled, model: LinearChainCRF) -> dict[str, np.ndarray]:
    """Their weights in the layout of our parameters; what is not in the file is zero."""
    column = {name: place for place, name in enumerate(data.attributes or ())}
    leaves = model.parameters(data)
    params = {name: np.zeros(leaf.shape) for name, leaf in leaves.items()}
    state, move = (found.features[found.features["kind"] == kind] for kind in (_STATE, _TRANSITION))
    places = np.array([column.get(name, -1) for name in found.attributes], int)[state["source"]]
    missing = np.unique(state["source"][places < 0])
    if missing.size:
        raise ValueError(
            "X and y must be the data that the model was trained with, got data without "
            f"{counted(missing.size, 'of its attributes', 'of its attributes')}, such as "
            f"'{found.attributes[missing[0]]}'"
        )
    params["weights"][places, state["target"]] = state["weight"]
    params["transition"][move["source"], move["target"]] = move["weight"]
    for name, leaf in leaves.items():
        if leaf.violation(params[name]) is not None:
            raise ValueError(
                "X and y must be the data that the model was trained with, got data in which some of "
                f"its parameters '{name}' have nothing to be estimated from"
            )
    return params
