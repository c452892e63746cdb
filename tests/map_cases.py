"""Small maps for the tests: a wall of unit squares, as GeoJSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np


def square(x, y, size=1.0):
    ring = [[x, y], [x + size, y], [x + size, y + size], [x, y + size], [x, y]]
    return {"type": "Polygon", "coordinates": [ring]}


def wall(rows=3, columns=4, shift=0.0, at=(10.0, 50.0), scale=0.1):
    """Squares in rows, each row moved by `shift` of a square; columns `name`, `n`, `births`, `state`."""
    rng, features = np.random.default_rng(0), []
    for row in range(rows):
        for column in range(columns):
            place = square(at[0] + scale * (column + shift * row), at[1] + scale * row, scale)
            births = int(rng.integers(200, 900))
            rate = 0.004 if column < columns / 2 else 0.02
            content = {
                "name": f"{'abcdefghij'[row]}{column}",
                "code": f"0{row}{column}",
                "n": int(rng.binomial(births, rate)),
                "births": births,
                "state": "west" if column < columns / 2 else "east",
            }
            features.append({"type": "Feature", "properties": content, "geometry": place})
    return {"type": "FeatureCollection", "features": features}


def written(content, path: Path) -> Path:
    path.write_text(json.dumps(content))
    return path
