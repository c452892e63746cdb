"""Columns by name: what tables call their columns says which is which, in whatever order they come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from fitonce.core.wording import listed

_STARTS = ("x", "u", "")  # of the names that columns of arrays get here, and get from pandas


def order_of(
    wanted: Sequence[str], found: Sequence[str], what: str, whose: str = "the fit", advice: str = ""
) -> list[int] | None:
    """Where columns `wanted` are among those `found`; None: as they are, by their position, since they
    are called the same, or one of both came without names.

    Args:
        wanted, found: names of columns.
        what, whose: of the sentence where names are others: what was found, and whose are wanted.
        advice: what to do where some are found besides.
    """
    wanted, found = tuple(wanted), tuple(found)
    if wanted == found:
        return None
    alike = set(wanted) == set(found) and len(set(wanted)) == len(wanted) == len(found)
    if alike:
        place = {name: number for number, name in enumerate(found)}
        return [place[name] for name in wanted]
    if by_position(wanted, found):
        return None
    missing = [name for name in wanted if name not in set(found)]
    besides = [name for name in found if name not in set(wanted)]
    said = [f"without {listed(missing)}"] if missing else []
    said += [f"with {listed(besides)} besides"] if besides else []
    said += [] if said else ["some of them twice"]
    hint = advice if besides and not missing else ""
    raise ValueError(
        f"{what} must have the columns of {whose}, {listed(wanted)}, in any order, got "
        f"{listed(found)}: {' and '.join(said)}{hint}"
    )


def by_position(wanted: Sequence[str], found: Sequence[str]) -> bool:
    """Whether one of both came without names. Those of arrays beside others are names, too, where some
    are the same: columns x0, x1 of a table beside x1, x2 of another."""
    named = are_names(wanted) + are_names(found)
    return named == 0 or (named == 1 and set(wanted).isdisjoint(found))


def are_names(columns: Sequence[str]) -> bool:
    """Whether a user called columns so; they are numbered where an array has none."""
    plain = [tuple(f"{start}{number}" for number in range(len(columns))) for start in _STARTS]
    return len(columns) > 0 and tuple(columns) not in plain


def in_order_of_first(parts: list[Any], what: str) -> tuple[list[Any], tuple[str, ...]]:
    """The parts with the columns of tables in the order of the first of them, and its names; no names
    where none is a table."""
    found, first = list(parts), None
    wanted: tuple[str, ...] = ()
    for number, part in enumerate(parts):
        if not isinstance(part, pd.DataFrame):
            continue
        own = tuple(map(str, part.columns))
        if first is None:
            first, wanted = number, own
        order = order_of(wanted, own, f"{what}: sequence {number}", f"sequence {first}")
        if order is not None:
            found[number] = part.iloc[:, order]
    return found, wanted
