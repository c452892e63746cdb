"""Entities in sequences of tags, counted as seqeval does (and conlleval before it).

An entity begins with B-, or where its type differs from that of the tag before, or where nothing was
open; I- and E- continue it. S- is an entity by itself. L- and U- are read as E- and S-.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_CHUNK = re.compile(r"[BIESLU](-.*)?")
_READ_AS = {"L": "E", "U": "S"}


class Entity(NamedTuple):
    """A type, and its first and last token."""

    kind: str
    first: int
    last: int


def are_chunks(tags: Sequence[str]) -> bool:
    """Whether tags say where entities begin: O, B-PER, I-PER and the like; B and I alone where O is."""
    inside = [tag for tag in tags if tag != "O"]
    if not inside or not all(_CHUNK.fullmatch(tag) for tag in inside):
        return False
    return "O" in tags or all("-" in tag for tag in inside)


def kind_of(tag: str) -> str:
    """The type of a tag's entity; "_" where it has none."""
    return tag[2:] or "_"


def entities(tags: Sequence[str]) -> list[Entity]:
    """Of one sequence, in order."""
    found: list[Entity] = []
    is_open, before = False, "O"
    for place, tag in enumerate(tags):
        part = _READ_AS.get(tag[0], tag[0])
        if part != "O":
            kind = kind_of(tag)
            goes_on = is_open and part in "IE" and found[-1].kind == kind and before not in "ES"
            begin = found.pop().first if goes_on else place
            found.append(Entity(kind, begin, place))
        is_open, before = part != "O", part
    return found
