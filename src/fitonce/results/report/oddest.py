"""The sites of a map that lie furthest from what was expected of them, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fitonce.results.odd_scales import ratios_of, sides_of
from fitonce.results.report.markup import Markup, datum, join, number, paragraph, table
from fitonce.results.report.points import floats
from fitonce.results.site_losses import beyond_chance, oddest, table_of, tiny
from fitonce.results.summary import Result

_LISTED = 10


class Odd:
    """What was expected of each site, where that is known.

    Attributes:
        expected, p: by number of a site, in words; empty where nothing is known.
    """

    def __init__(self, result: Result) -> None:
        table = None if result.predicted is None else table_of(result)
        known = 0 if table is None else len(oddest(table)[0])
        self._table = table if known else None
        rows = [] if self._table is None else self._table.to_dict(orient="records")
        self.expected: Mapping[int, str] = {row["site"]: number(row["expected"], 3) for row in rows}
        self.p: Mapping[int, str] = {
            row["site"]: tiny(row["p"]) if np.isfinite(row["p"]) else number(np.nan) for row in rows
        }

    def section(self, name: Callable[[int], str], channel: str, noun: str) -> Markup:
        """The smallest p, with a sentence on what to make of them."""
        if self._table is None:
            return join([])
        known, beyond = oddest(self._table)
        rows = [
            (
                name(int(row["site"])), datum(row["value"]), self.expected[row["site"]],
                row["direction"], self.p[row["site"]], float(row["loss"]),
            )
            for row in known.head(_LISTED).to_dict(orient="records")
        ]  # fmt: skip
        words = (
            "Losses favour places with large counts or spreads; the next table does not. It has the "
            "places furthest from what the others lead to expect, by p: the probability, if the model "
            "is right, of a value as far out on either side (twice the smaller tail, with half of the "
            f"probability of the value itself). {beyond_chance(beyond, len(known)).capitalize()}."
        )
        header = (noun, channel, "expected", "direction", "p", "mean loss")
        label = f"Furthest from what was expected, by {noun}"
        return join([paragraph(words), table(header, rows, label)])

    def packed(self, sites: int) -> dict[str, Any]:
        """For the layers of the map; empty where nothing is known."""
        sides = None if self._table is None else sides_of(self._table, sites)
        if self._table is None or sides is None:
            return {}
        expected = np.full(sites, np.nan)
        expected[self._table["site"].to_numpy()] = self._table["expected"].to_numpy(float)
        ratios = ratios_of(self._table, sites)
        return {
            "side": floats(sides.values),
            "expected": floats(expected),
            "level": sides.level,
            "end": None if ratios is None else ratios.end,
        }
