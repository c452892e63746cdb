"""Named data sets from a local folder, and a simulator.

`load` looks in the folder named by the environment variable FITONCE_DATA, then in ./data, then where
`fitonce data fetch` puts them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fitonce.data.graph import Graph
from fitonce.data.graph import graph
from fitonce.data.sequences import Sequences
from fitonce.data.sequences import sequences
from pathlib import Path
from typing import Any
import hashlib
import json
import numpy as np
import os
import pandas as pd
import platformdirs
import pooch


_MOCAP6_SHA256 = "50b15208e34dc2673a1a85beb2687fdc7b5db26534bd7a0f5adaed0a3118fc81"
_MOCAP124_SHA256 = "038b679fefa84287506d9de5c13f04ab51960ac9d0cc4aa726ec65dca82c0c82"
_MOCAP_LONG_SHA256 = "99d81c858e7ccab0c7e337dba207b3b7a98d9a9f449bd1081888d4cb689c89e2"
_DODGERS_SHA256 = "62c3853294fd97d229a92bb321b2cc91b4141c8956d6e77ce88ce8eed9e8d46d"
_PHILLY_SHA256 = {
    "counts": "912d7c79547836dc684a8d2b6621fb96701d1bf7fade79574b631733b4f5b2b3",
    "tracts": "7700df1fb39b4e64d82c0bc9531a59d4a33ffda3ba4a18dd973f06c7a870c72c",
    "edges": "5e67ce44c263ade1533ab34692aefc2f1bf8d6cc9c274dde2fe0ada4d193da68",
    "polygons": "90bfae0a3ab526b13a84ce448348900b39d57c97ab167ec7f2f6a4aa27fbcb05",
}


_SIDS2_SHA256 = "216c130701af40d0400298ea18a0ae8c89ca8356145e01d04b2eee2ad175f695"
MAPS = ("philly", "sids2")


def load(name: str, folder: str | os.PathLike[str] | None = None) -> Sequences:
    """Read a named data set: "dodgers" (25 weeks of five-minute freeway counts, UCI 157), or motion
    capture of 12 channels: "mocap6" (six sequences), "mocap124_standin" (124 trials of dance and sports,
    25 to 462 steps) or "mocap_long" (one sequence of 1,484 steps).

    Args:
        name: of the data set.
        folder: that holds it; None: the folder named by FITONCE_DATA, or `data` here.
    """
    if name not in _LOADERS:
        raise ValueError(f"data set must be one of {sorted(_LOADERS)}, got '{name}'")
    return _LOADERS[name](folder)


@dataclass(frozen=True, eq=False)
class MapData:
    """Data on a map.

    Attributes:
        table: one row per site.
        graph: neighbours.
        polygons: GeoJSON with a feature for each site, in order; None where there is none.
    """

    table: pd.DataFrame
    graph: Graph
    polygons: dict[str, Any] | None


def load_map(name: str, folder: str | os.PathLike[str] | None = None, *, year: int = 2018) -> MapData:
    """Read a named map: "philly" (crimes reported in 384 census tracts of Philadelphia: `violent`,
    `nonviolent`, `total`) or "sids2" (sudden infant deaths and births, 100 counties of North Carolina).

    Args:
        name: of the map.
        folder: that holds it; None: the folder named by FITONCE_DATA, or `data` here.
        year: of the crimes, 2006 to 2018.
    """
    if name == "philly":
        return _philly(folder, year)
    if name == "sids2":
        return _sids2(folder)
    raise ValueError(f"map must be one of {list(MAPS)}, got '{name}'")


def read_dodgers(path: str | os.PathLike[str]) -> Sequences:
    """The counts of a `Dodgers.data` file: lines of `month/day/year hour:minute,count`, -1 missing."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"expected a file like Dodgers.data, found none at {path}")
    try:
        table = pd.read_csv(path, header=None, names=["time", "count"])
        counts = pd.to_numeric(table["count"])
    except (ValueError, UnicodeDecodeError, pd.errors.ParserError):
        raise ValueError(
            f"{path.name} must have lines of 'time,count' such as '4/10/2005 0:00,23'"
        ) from None
    if counts.isna().all():
        raise ValueError(f"{path.name} must have lines of 'time,count', found no counts")
    return sequences(counts, missing=-1)


def simulate_events(
    weeks: int = 25, *, steps_per_day: int = 288, missing: float = 0.05, seed: int = 0
) -> Sequences:
    """Counts drawn from the `EventCounts` model at parameters near those of the real traffic data.

    Args:
        weeks, steps_per_day: how long and how fine; 25 and 288 give 50,400 steps.
        missing: the share of steps in missing runs.
        seed: of the random numbers.
    """
    rng = np.random.default_rng(seed)
    steps = 7 * weeks * steps_per_day
    day = (np.arange(steps) // steps_per_day) % 7
    level = 17.0 * np.array([0.81, 1.0, 1.03, 1.04, 1.05, 1.09, 0.98])
    stay = np.array([0.99, 0.98])
    state = np.zeros(steps, int)
    jumps = rng.random(steps)
    for t in range(1, steps):
        same = jumps[t] < stay[state[t - 1]]
        state[t] = state[t - 1] if same else 1 - state[t - 1]
    counts = rng.poisson(level[day]).astype(float)
    excess = rng.poisson(rng.gamma(3.0, 4.0, steps))
    counts += np.where(state == 1, excess, 0)
    run = max(steps // 200, 1)
    for start in rng.choice(steps - run, int(missing * steps / run), replace=False):
        counts[start : start + run] = np.nan
    return sequences(counts)


def _find(folder: Any, *parts: str) -> Path:
    places = [Path(folder)] if folder is not None else []
    if folder is None and os.environ.get("FITONCE_DATA"):
        places.append(Path(os.environ["FITONCE_DATA"]))
    places += [Path("data"), Path(platformdirs.user_cache_dir("fitonce")) / "data"]
    for place in places:
        for candidate in (place.joinpath(*parts), place / parts[-1]):
            if candidate.is_file():
                return candidate
    looked = ", ".join(str(place) for place in places)
    raise ValueError(f"found no {parts[-1]} in {looked}; set FITONCE_DATA to the folder that holds it")


def _dodgers(folder: Any) -> Sequences:
    path = _find(folder, "dodgers", "Dodgers.data")
    text = path.read_bytes().replace(b"\r\n", b"\n")
    _verify(path, text, _DODGERS_SHA256, "the UCI file", "; read another file with read_dodgers")
    return read_dodgers(path)


def _mocap6(folder: Any) -> Sequences:
    path = _find(folder, "mocap6", "dataset.npz")
    _verify(path, path.read_bytes(), _MOCAP6_SHA256, "the six-sequence set of Fox et al.")
    with np.load(path) as file:
        names = [name.decode() for name in file["column_names"]]
        parts = np.split(file["X"], file["doc_range"][1:-1])
    return sequences([pd.DataFrame(part, columns=names) for part in parts])


def _mocap124(folder: Any) -> Sequences:
    path = _find(folder, "mocap124_standin", "mocap124_standin.npz")
    _verify(path, path.read_bytes(), _MOCAP124_SHA256, "the file of 124 trials")
    with np.load(path) as file:
        parts = np.split(file["X"].astype(float), np.cumsum(file["lengths"])[:-1])
        return sequences([pd.DataFrame(part, columns=list(file["channels"])) for part in parts])


def _mocap_long(folder: Any) -> Sequences:
    path = _find(folder, "mocap124_standin", "long1484_13_29_40fps.npz")
    _verify(path, path.read_bytes(), _MOCAP_LONG_SHA256, "the sequence of 1,484 steps")
    with np.load(path) as file:
        return sequences(pd.DataFrame(file["X"].astype(float), columns=list(file["channels"])))


def _philly(folder: Any, year: int) -> MapData:
    def read(name: str, sha: str) -> Path:
        path = _find(folder, "philly", name)
        _verify(path, path.read_bytes(), sha, "the file of 384 tracts")
        return path

    counts = pd.read_csv(read("philly_crime_counts_tract_year.csv", _PHILLY_SHA256["counts"]))
    tracts = pd.read_csv(read("philly_tracts.csv", _PHILLY_SHA256["tracts"]))
    edges = pd.read_csv(read("philly_edges.csv", _PHILLY_SHA256["edges"]))
    polygons = json.loads(read("philly_tracts_2010.geojson", _PHILLY_SHA256["polygons"]).read_text())
    if year not in set(counts["year"]):
        raise ValueError(
            f"year must be between {counts['year'].min()} and {counts['year'].max()}, got {year}"
        )
    chosen = counts[counts["year"] == year].set_index("GEOID10").loc[tracts["GEOID10"]]
    table = pd.DataFrame(
        {
            "tract": tracts["GEOID10"].astype(str),
            "name": tracts["NAMELSAD10"],
            "latitude": tracts["INTPTLAT10"].astype(float),
            "longitude": tracts["INTPTLON10"].astype(float),
            "violent": chosen["violent"].to_numpy(),
            "nonviolent": chosen["nonviolent"].to_numpy(),
        }
    )
    table["total"] = table["violent"] + table["nonviolent"]
    return MapData(table, graph(edges[["i", "j"]], len(table)), polygons)


def _sids2(folder: Any) -> MapData:
    path, links = _find(folder, "sids2", "sids2.csv"), _find(folder, "sids2", "sids2_queen_edges.csv")
    _verify(path, path.read_bytes(), _SIDS2_SHA256, "the file of 100 counties")
    table = pd.read_csv(path)
    return MapData(table, graph(pd.read_csv(links), len(table)), None)


def _verify(path: Path, content: bytes, expected: str, what: str, hint: str = "") -> None:
    digest = hashlib.sha256(content).hexdigest()
    if digest != expected:
        raise ValueError(
            f"{path.name} is not {what}: its checksum is {digest[:12]}..., "
            f"expected {expected[:12]}...{hint}"
        )


_LOADERS: dict[str, Callable[[Any], Sequences]] = {
    "dodgers": _dodgers,
    "mocap6": _mocap6,
    "mocap124_standin": _mocap124,
    "mocap_long": _mocap_long,
}


@dataclass(frozen=True)
class Source:
    """A data set that can be fetched.

    Attributes:
        title: what it is.
        file: its place in a data folder.
        url: of the file, or of a zip archive that holds `member`; None: not to be had by a command.
        sha256: of what `url` gives.
        member: of the archive.
        content: sha256 of the file itself, its lines ended as on Unix; for what comes in an archive.
    """

    title: str
    file: str
    url: str | None = None
    sha256: str | None = None
    member: str | None = None
    content: str | None = None


_BNPY = "https://raw.githubusercontent.com/bnpy/bnpy/master/bnpy/datasets/mocap6/dataset.npz"
_UCI = "https://archive.ics.uci.edu/static/public/157/dodgers+loop+sensor.zip"
_DODGERS = "62c3853294fd97d229a92bb321b2cc91b4141c8956d6e77ce88ce8eed9e8d46d"
SOURCES = {
    "dodgers": Source("25 weeks of five-minute freeway counts (UCI 157)", "dodgers/Dodgers.data",
                      _UCI, None, "Dodgers.data", _DODGERS),
    "mocap6": Source("motion capture, six sequences of 12 channels (Fox et al.)", "mocap6/dataset.npz",
                     _BNPY, "50b15208e34dc2673a1a85beb2687fdc7b5db26534bd7a0f5adaed0a3118fc81"),
    "mocap124_standin": Source("motion capture, 124 trials (made from CMU's database)",
                               "mocap124_standin/mocap124_standin.npz"),
    "mocap_long": Source("motion capture, one sequence of 1,484 steps",
                         "mocap124_standin/long1484_13_29_40fps.npz"),
    "philly": Source("crimes in 384 census tracts of Philadelphia",
                     "philly/philly_crime_counts_tract_year.csv"),
    "sids2": Source("sudden infant deaths, 100 counties of North Carolina", "sids2/sids2.csv"),
}  # fmt: skip


def folder() -> Path:
    """Where fetched data go: the folder that FITONCE_DATA names, else one in the user's cache."""
    named = os.environ.get("FITONCE_DATA")
    return Path(named) if named else Path(platformdirs.user_cache_dir("fitonce")) / "data"


def here(name: str) -> Path | None:
    """The file of a data set, if it is on this machine."""
    source = _source(name)
    for place in (folder(), Path(platformdirs.user_cache_dir("fitonce")) / "data", Path("data")):
        for candidate in (place / source.file, place / Path(source.file).name):
            if candidate.is_file():
                return candidate
    return None


def fetch(name: str) -> Path:
    """The file of a data set, downloaded if need be. What does not have its checksum is not kept."""
    source, found = _source(name), here(name)
    if found is not None:
        return found
    if source.url is None:
        raise ValueError(
            f"'{name}' is not offered for download; put {source.file} in a folder and name that with "
            "FITONCE_DATA"
        )
    target = folder() / source.file
    target.parent.mkdir(parents=True, exist_ok=True)
    unzip = pooch.Unzip(members=[source.member]) if source.member else None
    try:
        got = pooch.retrieve(
            source.url, source.sha256, fname=None if unzip else target.name, path=target.parent,
            processor=unzip, progressbar=False,
        )  # fmt: skip
    except ValueError as error:
        raise ValueError(f"'{name}' could not be fetched: {str(error).splitlines()[0]}") from None
    except Exception as error:  # every kind of network trouble
        raise ValueError(
            f"'{name}' could not be fetched ({type(error).__name__}); download it by hand from "
            f"{source.url} and name its folder with FITONCE_DATA"
        ) from None
    if not isinstance(got, list):
        return Path(got)
    content = Path(got[0]).read_bytes()
    if hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest() != source.content:
        raise ValueError(f"'{name}' could not be fetched: what came does not have its checksum")
    target.write_bytes(content)
    return target


def _source(name: str) -> Source:
    if name not in SOURCES:
        raise ValueError(f"data set must be one of {', '.join(SOURCES)}, got '{name}'")
    return SOURCES[name]
