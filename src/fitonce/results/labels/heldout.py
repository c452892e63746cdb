"""What was predicted for every held-out label, as numbers; made when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from fitonce.results.packing import pack_array, pack_words, to_array, to_words

_COLUMNS = {
    **dict.fromkeys(("fold", "site", "label", "predicted", "control"), "iu"),
    **dict.fromkeys(("loss", "predicted_chance"), "f"),
}


class HeldoutLabels:
    """Predictions for held-out tokens.

    Args:
        tags: K names.
        lengths: (N,) tokens of each sequence.
        words: (sites,) of all tokens; None: they have only numbers.
        whole: whether whole sequences were left out; else single labels.
        together: whether the sequences of a fold belong together.
        make: returns one row per held-out token, in numbers: `fold`, `site`; `label`, the index of the
            given tag, -1 where it is not known; `predicted`, without the fold's data, and `control`, at
            the full fit; `loss`, -log p(label), and `predicted_chance`, both without the fold's data.
    """

    def __init__(
        self,
        tags: tuple[str, ...],
        lengths: np.ndarray,
        words: tuple[str, ...] | None,
        whole: bool,
        make: Callable[[], pd.DataFrame],
        together: bool = False,
    ) -> None:
        self.tags, self.lengths, self.words, self.whole = tags, lengths, words, whole
        self.together = together
        self._make = make

    @cached_property
    def codes(self) -> pd.DataFrame:
        """See `make`."""
        return self._make()

    @cached_property
    def sequence(self) -> np.ndarray:
        """(rows,) the sequence of each held-out token."""
        return np.searchsorted(np.cumsum(self.lengths), self.codes["site"].to_numpy(), side="right")

    @property
    def unit(self) -> np.ndarray:
        """(rows,) what standard errors take as independent: the sequence, or the fold."""
        return self.codes["fold"].to_numpy() if self.together else self.sequence

    @property
    def time(self) -> np.ndarray:
        """(rows,) the place of each held-out token in its sequence."""
        offsets = np.cumsum(self.lengths) - self.lengths
        return self.codes["site"].to_numpy() - offsets[self.sequence]

    def words_of(self, sequence: int) -> list[str]:
        """The tokens of one sequence; their numbers where there are no words."""
        length = int(self.lengths[sequence])
        if self.words is None:
            return [f"({step})" for step in range(length)]
        start = int(self.lengths[:sequence].sum())
        return list(self.words[start : start + length])

    def table(self) -> pd.DataFrame:
        """In words, as `CVResult.heldout_labels` has it."""
        codes, names = self.codes, np.array([*self.tags, ""], object)  # -1: the last
        sites = codes["site"].to_numpy()
        return pd.DataFrame(
            {
                "fold": codes["fold"].to_numpy(),
                "sequence": self.sequence,
                "time": self.time,
                "site": sites,
                "word": "" if self.words is None else np.array(self.words, object)[sites],
                "label": names[codes["label"]],
                "predicted": names[codes["predicted"]],
                "control": names[codes["control"]],
                "chance": np.exp(-codes["loss"].to_numpy()),
                "predicted_chance": codes["predicted_chance"].to_numpy(),
                "loss": codes["loss"].to_numpy(),
            }
        )


def pack_labels(found: HeldoutLabels | None) -> dict[str, Any] | None:
    """For a file."""
    if found is None:
        return None
    return {
        "tags": list(found.tags),
        "words": None if found.words is None else pack_words(found.words),
        "whole": found.whole,
        "together": found.together,
        "rows": {name: pack_array(found.codes[name].to_numpy()) for name in _COLUMNS},
    }


def to_labels(document: Mapping[str, Any] | None, lengths: np.ndarray) -> HeldoutLabels | None:
    """Inverse of `pack_labels`, for sequences of these lengths."""
    if document is None:
        return None
    tags = tuple(map(str, document["tags"]))
    words = None if document["words"] is None else to_words(document["words"])
    together = bool(document.get("together", False))
    rows = pd.DataFrame({name: to_array(document["rows"][name]) for name in _COLUMNS})
    for name, kinds in _COLUMNS.items():
        if rows[name].dtype.kind not in kinds:
            raise ValueError(f"'{name}' of its labels has the wrong type, {rows[name].dtype}")
    sites = int(lengths.sum())
    if words is not None and len(words) != sites:
        raise ValueError(f"it has {len(words):,} words for {sites:,} tokens")
    bounds = {"site": (0, sites), "fold": (0, 2**31)}
    bounds |= {"label": (-1, len(tags)), "predicted": (0, len(tags)), "control": (0, len(tags))}
    for name, (low, high) in bounds.items():
        if not rows[name].between(low, high - 1).all():
            raise ValueError(f"'{name}' of its labels is out of range")
    return HeldoutLabels(tags, lengths, words, bool(document["whole"]), lambda: rows, together)
