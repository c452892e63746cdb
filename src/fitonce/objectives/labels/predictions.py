"""Tags of labelled data and of other features, at given parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from fitonce.core.wording import counted
from fitonce.data.attributes import are_attributes, tokens_of
from fitonce.data.labelled import Labelled, labelled
from fitonce.objectives.labels.layout import LabelLayout


def read_labelled(known: Labelled, given: Any) -> Labelled:
    """Other features with their labels, read with the columns and the tags of known data."""
    if not isinstance(given, tuple) or len(given) != 2:
        if not isinstance(given, Labelled):
            raise ValueError(
                "a model of labels needs labelled data, from fo.labelled or a pair (X, y), got "
                f"{type(given).__name__}"
            )
        return read_more(known, given)
    features, labels = given
    named = isinstance(features, (list, tuple)) and are_attributes(list(features))
    columns = known.attributes if named else None
    return read_more(known, labelled(features, labels, tags=known.tags, attributes=columns))


def read_more(known: Labelled, given: Any) -> Labelled:
    """Other features, with the columns and the tags of known data."""
    read = given
    if not isinstance(given, Labelled):
        # Any labels will do. What is not a list of arrays is refused before they are read.
        parts = given if hasattr(given, "__len__") else []
        lengths = [_count(part) for part in parts]
        columns = known.attributes if are_attributes(list(parts)) else None
        labels = [[known.tags[0]] * length for length in lengths]
        read = labelled(given, labels, tags=known.tags, attributes=columns)
    read = _in_columns(known, read)
    if read.tags != known.tags:
        raise ValueError(
            f"the model was fitted with tags {', '.join(known.tags)}, got {', '.join(read.tags)}; "
            "read the data with fo.labelled(..., tags=) of the training data"
        )
    return read


def _in_columns(known: Labelled, read: Labelled) -> Labelled:
    """Features in the order of known data, by name; those of arrays without names by position."""
    read = read if known.attributes is None else read.with_attributes(known.attributes)
    if read.features.shape[1] != known.features.shape[1]:
        raise ValueError(
            f"the model was fitted with {counted(known.features.shape[1], 'feature')}, "
            f"got {read.features.shape[1]}"
        )
    if read.attributes != known.attributes and (known.is_sparse or read.is_sparse):
        raise ValueError(
            "the model was fitted with other attributes; read the data with "
            "fo.labelled(..., attributes=) of the training data"
        )
    return read


def _count(part: Any) -> int:
    """The number of tokens of a sequence."""
    if tokens := tokens_of(part):
        return len(tokens)
    if hasattr(part, "tocsr"):
        return int(part.shape[0])
    return len(part) if hasattr(part, "__len__") else 0


def state_probabilities(layout: LabelLayout, theta: np.ndarray) -> np.ndarray:
    """(sites, K) probabilities of the tags given the features and the known labels."""
    data = layout.data
    found = np.zeros((data.n_sites, len(data.tags)))
    known = np.flatnonzero(data.weights > 0)
    found[known, data.labels[known]] = 1.0
    sequences = np.unique(layout.sequence[data.weights <= 0])
    thetas = np.broadcast_to(theta, (len(sequences), len(theta)))
    for some, logs in layout.chains.log_marginals(thetas, sequences, layout.labels[sequences]):
        for sequence, log_shares in zip(sequences[some], logs, strict=True):
            start, length = data.offsets[sequence], data.lengths[sequence]
            found[start : start + length] = np.exp(log_shares[:length])
            if not found[start].sum() > 0:
                raise impossible(data, int(sequence))
    return found


def decode(layout: LabelLayout, theta: np.ndarray) -> list[list[str]]:
    """The jointly most probable tags of each sequence; known labels are not used."""
    tags, found = np.array(layout.data.tags), []
    for number, path in enumerate(layout.chains.best_paths(theta)):
        if path is None:
            raise impossible(layout.data, number)
        found.append(tags[path].tolist())
    return found


def impossible(data: Labelled, sequence: int) -> ValueError:
    """What to raise where no tags are allowed for a sequence."""
    length = counted(int(data.lengths[sequence]), "token")
    return ValueError(f"sequence {sequence} ({length}) has no tags that support= allows")
