"""Models trained by CRFsuite: live, and as `python tests/crfsuite_cases.py` stored them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

STORED = Path(__file__).parent / "saved" / "crfsuite.json"
WORDS = ["Oslo", "is", "Rio", "Grande", "2", "buses", "Go", "now", "4s", "Alps", "the", "of"]
NAMES = {
    "usual": {"c2": 0.1},
    "every": {"c2": 0.3, "all_possible_states": True, "all_possible_transitions": True},
    "frequent": {"c2": 0.1, "min_freq": 3},
    "early": {"c2": 0.1, "max_iterations": 5},
}
OPTIONS = ("c1", "c2", "algorithm", "min_freq", "all_possible_states", "all_possible_transitions")


def attributes(words: list[str]) -> list[dict[str, Any]]:
    """Of every kind that CRFsuite reads: text, numbers, bools, lists and dicts."""
    rows = []
    for step, word in enumerate(words):
        row = {"word": word.lower(), "title": word.istitle(), "length": len(word) / 4, "bias": 1.0}
        row["ends"] = [word[-1], word[-2:]]
        if step:
            row["before"] = {"word": words[step - 1].lower(), "title": words[step - 1].istitle()}
        rows.append(row)
    return rows


def sentences(seed: int = 0, count: int = 40) -> tuple[list[list[str]], list[list[str]]]:
    """Random words; a capital begins or goes on with an entity, most of the time."""
    rng = np.random.default_rng(seed)
    words = [rng.choice(WORDS, size=length).tolist() for length in rng.integers(1, 9, size=count)]
    tags = []
    for sentence in words:
        row = ["O"]
        for word in sentence:
            inside = word[0].isupper() and rng.random() < 0.85
            row.append("O" if not inside else "I-X" if row[-1] != "O" else "B-X")
        tags.append(row[1:])
    return words, tags


def data() -> tuple[list[list[dict[str, Any]]], list[list[str]]]:
    words, tags = sentences()
    return [attributes(sentence) for sentence in words], tags


def trained(name: str, X: Any = None, y: Any = None) -> Any:
    """A live `sklearn_crfsuite.CRF`, by default of the data above."""
    import sklearn_crfsuite

    how = {"max_iterations": 2000, "epsilon": 1e-9, "delta": 1e-12} | NAMES[name]
    return sklearn_crfsuite.CRF(**how).fit(*(data() if X is None else (X, y)))


def log_likelihood(crf: Any) -> float:
    """By CRFsuite's own probabilities."""
    total = 0.0
    for row, tags in zip(*data(), strict=True):
        crf.tagger_.set(row)
        total += float(np.log(crf.tagger_.probability(tags)))
    return total


def stored(name: str, folder: Path) -> tuple[Any, float]:
    """As if trained: the model's options and its file, written to a folder; and its log-likelihood."""
    kept = json.loads(STORED.read_text())[name]
    path = folder / f"{name}.crfsuite"
    path.write_bytes(base64.b64decode(kept["file"]))
    model = SimpleNamespace(**kept["options"], modelfile=SimpleNamespace(name=str(path)))
    return model, kept["log_likelihood"]


def main() -> None:
    made = {}
    for name in NAMES:
        crf = trained(name)
        options = {option: getattr(crf, option) for option in OPTIONS}
        content = base64.b64encode(Path(crf.modelfile.name).read_bytes()).decode()
        made[name] = {"options": options, "log_likelihood": log_likelihood(crf), "file": content}
    STORED.write_text(json.dumps(made, indent=1))


if __name__ == "__main__":
    main()
