"""The kinds of inputs: what draws them, what judges them, and how many of each are drawn in a round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st

from fuzzing import (
    chains,
    columns,
    file_strategies,
    files,
    graphs,
    labels,
    order_strategies,
    orders,
    strategies,
)
from fuzzing.outcomes import Outcome, outcome_of


class Kind(NamedTuple):
    recipes: st.SearchStrategy[dict[str, Any]]
    judge: Callable[[dict[str, Any]], None]
    each_round: int


KINDS = {
    "chains": Kind(strategies.chains(), chains.judge, 60),
    "labels": Kind(strategies.labels(), labels.judge, 30),
    "files": Kind(file_strategies.files(), files.judge, 40),
    "graphs": Kind(strategies.graphs(), graphs.judge, 15),  # whose shapes are compiled
    "columns": Kind(order_strategies.columns(), columns.judge, 40),
    "dates": Kind(order_strategies.dates(), orders.judge_dates, 40),
    "beside": Kind(order_strategies.beside(), orders.judge_beside, 40),
    "places": Kind(order_strategies.places(), orders.judge_places, 20),
}


def try_one(kind: str, recipe: dict[str, Any]) -> Outcome:
    """What comes of a recipe."""
    return outcome_of(KINDS[kind].judge, recipe)


def require_sound(kind: str, recipe: dict[str, Any]) -> None:
    """Raise unless a recipe has a right answer or is refused: what tests in `tests/found` ask."""
    found = try_one(kind, recipe)
    assert not found.failed, f"{found.kind}: {found.text}"
