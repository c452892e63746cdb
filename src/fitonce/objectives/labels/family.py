"""Labels given features: conditional random fields."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fitonce.data.conll import read_conll
from fitonce.data.labelled import labelled
from fitonce.data.reading import Columns
from fitonce.data.word_features import word_features
from fitonce.models.base import LabelModel
from fitonce.models.crf import LinearChainCRF
from fitonce.objectives.family import Family, Loaded, NamedModel
from fitonce.objectives.labels.objective import label_objective

_ENDINGS = (".conll", ".iob2", ".bio", ".iob")


def _load(path: Path, columns: Columns, options: Mapping[str, Any]) -> Loaded:
    if path.suffix.lower() not in _ENDINGS:
        raise ValueError(f"--model crf reads CoNLL files ({', '.join(_ENDINGS)}), got {path.name}")
    found = read_conll(path)
    data = labelled(word_features(found.words), found.tags, tags=found.tag_names, words=found.words)
    return Loaded(data, [str(found)], str(data))


def _crf(options: Mapping[str, Any], data: Any) -> LinearChainCRF:
    """With the transitions of IOB2 where the tags are IOB2."""
    inside = any(str(tag).startswith("I-") for tag in data.tags)
    return LinearChainCRF(support="iob2" if inside else None)


LABELS = Family(
    name="labels",
    accepts=lambda model: isinstance(model, LabelModel),
    objective=label_objective,
    usual_folds="sequences",
    covering_folds="sequences",
    models=(NamedModel("crf", "tags of words (CoNLL files)", _crf),),
    load=_load,
    endings=_ENDINGS,
)
