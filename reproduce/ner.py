"""Named-entity data that several tables share."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import fitonce as fo
from reproduce import traffic

EWT = {
    "train": "en_ewt-ud-train.prelim-0c7ce0d.iob2",
    "dev": "en_ewt-ud-dev.iob2",
    "test": "en_ewt-ud-test.iob2",
}
WNUT = {
    "train": "wnut17train.conll",
    "dev": "emerging.dev.conll",
    "test": "emerging.test.annotated",
}


def folder() -> Path:
    return Path(traffic.FOLDER)


def ewt(part: str) -> fo.Tagged:
    """Universal NER on English EWT: 12,543, 2,001 and 2,077 sentences."""
    return fo.read_conll(folder() / "uner_ewt" / EWT[part])


def wnut(part: str) -> fo.Tagged:
    """Emerging entities in tweets: 3,394, 1,009 and 1,287 sentences."""
    return fo.read_conll(folder() / "wnut17" / WNUT[part])


def glove() -> fo.WordVectors:
    return fo.read_vectors(folder() / "glove100" / "glove6B100_subset_f16.npz")


def linear(data: fo.Tagged, vectors: fo.WordVectors, tags: tuple[str, ...]) -> fo.Labelled:
    """Shapes of words and of their neighbours, and the first axes of their vectors."""
    features = fo.word_features(data.words, vectors)
    return fo.labelled(features, data.tags, tags=tags, words=data.words)


def f1(found: list[list[str]], truth: list[list[str]]) -> float:
    """Of entities, by seqeval."""
    from seqeval.metrics import f1_score

    return float(f1_score(truth, found))


def flipped(data: fo.Tagged, share: float, seed: int) -> tuple[fo.Tagged, np.ndarray]:
    """A share of the labels exchanged for another tag, drawn at random; and which sites those are."""
    rng = np.random.default_rng(seed)
    names = data.tag_names
    flat = [tag for sentence in data.tags for tag in sentence]
    chosen = rng.choice(len(flat), int(share * len(flat)), replace=False)
    for site in chosen:
        flat[site] = str(rng.choice([name for name in names if name != flat[site]]))
    ends = np.cumsum([len(sentence) for sentence in data.words])
    tags = [flat[end - len(words) : end] for words, end in zip(data.words, ends, strict=True)]
    return fo.Tagged(data.words, tags), np.sort(chosen)
