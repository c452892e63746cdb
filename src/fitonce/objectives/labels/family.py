"""Labels given features: conditional random fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fitonce.core.wording import split_names
from fitonce.data.reading import Columns
from fitonce.data.tagged import FEATURES, features_of
from fitonce.data.tagged_files import ENDINGS, read_tagged
from fitonce.data.word_features import read_vectors
from fitonce.models.base import LabelModel
from fitonce.models.crf import LinearChainCRF
from fitonce.objectives.family import Family, Loaded, NamedModel, Option
from fitonce.objectives.labels.objective import label_objective

_OPTIONS = (
    Option(
        "features",
        str,
        None,
        f"What the tags depend on, some of {', '.join(FEATURES)}, separated by commas (default: columns "
        "where there are any, else shapes)",
        of_data=True,
    ),
    Option("vectors", Path, None, "File of word vectors (GloVe's text, or .npz)", of_data=True),
    Option("format", str, None, f"{', '.join(ENDINGS)} (default: by the ending)", of_data=True),
    Option("word_column", str, None, "Column of the words, a number in CoNLL files", of_data=True),
    Option("tag_column", str, None, "Column of the tags, a number in CoNLL files", of_data=True),
    Option("encoding", str, "utf-8", "Encoding of the file", of_data=True),
    Option("scale", float, 3.0, "Standard deviation of the prior of every weight"),
)


def _load(path: Path, columns: Columns, options: Mapping[str, Any]) -> Loaded:
    got = f"is for tables of numbers, got words and tags ({path.name})"
    columns = columns.only("modelled", "group", otherwise=got)
    asked = options.get("features")
    vectors = options.get("vectors")
    found = read_tagged(
        path,
        options.get("format"),
        word=options.get("word_column"),
        tag=options.get("tag_column"),
        sentence=columns.group,
        columns=columns.modelled or (),
        encoding=options.get("encoding", "utf-8"),
    )
    chosen = None if asked is None else split_names(asked)
    read = None if vectors is None else read_vectors(vectors)
    like = options.get("like")
    if like is not None:  # to be tagged: tags of the file are not used, and may be none of the fit's
        found = replace(found, tags=[[like.tags[0]] * len(words) for words in found.words])
        chosen = features_of(like)
    data = found.labelled(chosen, vectors=read, like=like)
    return Loaded(data, [str(found)], str(data))


def _crf(options: Mapping[str, Any], data: Any) -> LinearChainCRF:
    """With the transitions of IOB2 where the tags are IOB2."""
    inside = any(str(tag).startswith("I-") for tag in data.tags)
    return LinearChainCRF(support="iob2" if inside else None, scale=options["scale"])


LABELS = Family(
    name="labels",
    accepts=lambda model: isinstance(model, LabelModel),
    objective=label_objective,
    usual_folds="sequences",
    covering_folds="sequences",
    models=(NamedModel("crf", "tags of words (CoNLL, a table, JSON lines, CRFsuite)", _crf, _OPTIONS),),
    load=_load,
    endings=tuple(
        ending
        for endings in ENDINGS.values()
        for ending in endings
        if ending not in (".csv", ".tsv", ".parquet", ".json")
    ),
)
