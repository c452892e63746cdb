"""Named data sets, found on disk or downloaded, and a simulator.

A data set is looked for in the given folder or the one named by the environment variable FITONCE_DATA,
then in ./data, then where `fitonce data fetch` puts it. Checksums of all files are verified.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import platformdirs

from fitonce.core.arguments import generator, read_path, require_choice, require_count, require_number
from fitonce.core.deferred import pooch
from fitonce.core.memory import require_fits
from fitonce.core.writing import existing, is_file, put_whole
from fitonce.data.graph import Graph, graph
from fitonce.data.sequences import Sequences, sequences


@dataclass(frozen=True)
class Source:
    """A data set.

    Attributes:
        title: a short description.
        files: paths within a data folder, the main file first, and the sha256 of each (text with Unix
            line ends).
        url: of the main file, or of a zip archive with `member` in it; None: no download.
        member: the main file's name in the archive.
        is_map: whether it is read by `load_map` rather than `load`.
    """

    title: str
    files: dict[str, str]
    url: str | None = None
    member: str | None = None
    is_map: bool = False

    @property
    def file(self) -> str:
        return next(iter(self.files))


SOURCES = {
    "dodgers": Source(
        "25 weeks of five-minute freeway counts (UCI 157)",
        {"dodgers/Dodgers.data": "62c3853294fd97d229a92bb321b2cc91b4141c8956d6e77ce88ce8eed9e8d46d"},
        "https://archive.ics.uci.edu/static/public/157/dodgers+loop+sensor.zip",
        "Dodgers.data",
    ),
    "mocap6": Source(
        "motion capture, six sequences of 12 channels (Fox et al.)",
        {"mocap6/dataset.npz": "50b15208e34dc2673a1a85beb2687fdc7b5db26534bd7a0f5adaed0a3118fc81"},
        "https://raw.githubusercontent.com/bnpy/bnpy/master/bnpy/datasets/mocap6/dataset.npz",
    ),
    "mocap124_standin": Source(
        "motion capture, 124 trials (made from CMU's database)",
        {"mocap124_standin/mocap124_standin.npz":
            "038b679fefa84287506d9de5c13f04ab51960ac9d0cc4aa726ec65dca82c0c82"},
    ),
    "mocap_long": Source(
        "motion capture, one sequence of 1,484 steps",
        {"mocap124_standin/long1484_13_29_40fps.npz":
            "99d81c858e7ccab0c7e337dba207b3b7a98d9a9f449bd1081888d4cb689c89e2"},
    ),
    "philly": Source(
        "crimes in 384 census tracts of Philadelphia",
        {
            "philly/philly_crime_counts_tract_year.csv":
                "912d7c79547836dc684a8d2b6621fb96701d1bf7fade79574b631733b4f5b2b3",
            "philly/philly_tracts.csv":
                "7700df1fb39b4e64d82c0bc9531a59d4a33ffda3ba4a18dd973f06c7a870c72c",
            "philly/philly_edges.csv":
                "5e67ce44c263ade1533ab34692aefc2f1bf8d6cc9c274dde2fe0ada4d193da68",
            "philly/philly_tracts_2010.geojson":
                "90bfae0a3ab526b13a84ce448348900b39d57c97ab167ec7f2f6a4aa27fbcb05",
        },
        is_map=True,
    ),
    "sids2": Source(
        "sudden infant deaths, 100 counties of North Carolina",
        {
            "sids2/sids2.csv": "216c130701af40d0400298ea18a0ae8c89ca8356145e01d04b2eee2ad175f695",
            "sids2/sids2_queen_edges.csv":
                "87c0e6a0fcba4c21252b34c8ea2af72d5620491d83a99ef7d88f9916cce01cff",
        },
        is_map=True,
    ),
}  # fmt: skip


_STEP = 64  # bytes of a simulated step
_YEARS = (2006, 2018)  # of the crimes


def load(name: str, folder: str | os.PathLike[str] | None = None) -> Sequences:
    """Read a named data set: "dodgers" (25 weeks of five-minute freeway counts, UCI 157), or motion
    capture of 12 channels: "mocap6" (six sequences), "mocap124_standin" (124 trials of dance and sports,
    25 to 462 steps) or "mocap_long" (one sequence of 1,484 steps).

    Args:
        name: of the data set.
        folder: where it is; None: FITONCE_DATA, ./data, or where `fitonce data fetch` put it.
    """
    known = sorted(name for name, source in SOURCES.items() if not source.is_map)
    require_choice("name", name, known)
    (path,) = _files(name, folder)
    if name == "dodgers":
        return read_dodgers(path)
    with np.load(path) as file:
        x = file["X"].astype(float)
        if name == "mocap6":
            columns, starts = [part.decode() for part in file["column_names"]], file["doc_range"][1:-1]
        else:
            lengths = file["lengths"] if name == "mocap124_standin" else [len(x)]
            columns, starts = list(file["channels"]), np.cumsum(lengths)[:-1]
    return sequences([pd.DataFrame(part, columns=columns) for part in np.split(x, starts)])


@dataclass(frozen=True, eq=False)
class MapData:
    """Data on a map.

    Attributes:
        table: one row per site.
        graph: which sites are neighbours.
        polygons: GeoJSON with one feature per site, in order; None if there is none.
    """

    table: pd.DataFrame
    graph: Graph
    polygons: dict[str, Any] | None


def load_map(name: str, folder: str | os.PathLike[str] | None = None, *, year: int = 2018) -> MapData:
    """Read a named map: "philly" (crimes reported in 384 census tracts of Philadelphia: `violent`,
    `nonviolent`, `total`) or "sids2" (sudden infant deaths and births, 100 counties of North Carolina).

    Args:
        name: of the map.
        folder: as in `load`.
        year: of the crimes, 2006 to 2018.
    """
    known = [name for name, source in SOURCES.items() if source.is_map]
    require_choice("name", name, known)
    require_count("year", year, *_YEARS)
    files = _files(name, folder)
    if name == "sids2":
        table = pd.read_csv(files[0])
        return MapData(table, graph(pd.read_csv(files[1]), len(table)), None)
    counts, tracts, edges = (pd.read_csv(path) for path in files[:3])
    years = counts["year"]
    chosen = counts[years == year].set_index("GEOID10").loc[tracts["GEOID10"]]
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
    polygons = json.loads(files[3].read_text(encoding="utf-8"))
    return MapData(table, graph(edges[["i", "j"]], len(table)), polygons)


def read_dodgers(path: str | os.PathLike[str]) -> Sequences:
    """Counts from a `Dodgers.data` file: lines of `month/day/year hour:minute,count`, -1 if missing."""
    path = existing(path, "a file like Dodgers.data")
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
        weeks, steps_per_day: length and resolution; 25 and 288 give 50,400 steps.
        missing: share of steps in runs of missing values.
        seed: of the random numbers.
    """
    rng = generator(seed)
    require_count("weeks", weeks)
    require_count("steps_per_day", steps_per_day)
    require_number("missing", missing, least=0, below=1)
    require_fits("steps_per_day", steps_per_day, lambda n: _STEP * 7 * n, "that many steps")
    require_fits("weeks", weeks, lambda n: _STEP * 7 * n * int(steps_per_day), "that many steps")
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


def _cache() -> Path:
    return Path(platformdirs.user_cache_dir("fitonce")) / "data"


def _folders(folder: str | os.PathLike[str] | None = None) -> list[Path]:
    if folder is None:
        folder = os.environ.get("FITONCE_DATA") or None
    given = [] if folder is None else [read_path("folder", folder, "the path of a folder")]
    return [*given, Path("data"), _cache()]


def _find(file: str, folders: list[Path]) -> Path | None:
    """A file, in its subfolder or directly in one of the folders."""
    candidates = [folder / part for folder in folders for part in (file, Path(file).name)]
    return next((path for path in candidates if is_file(path)), None)


def _files(name: str, folder: Any) -> list[Path]:
    """The files of a data set, with their checksums verified."""
    found, folders = [], _folders(folder)
    for file, expected in SOURCES[name].files.items():
        path = _find(file, folders)
        if path is None:
            raise ValueError(
                f"found no {Path(file).name} in {', '.join(f'{one!s:.100}' for one in folders)}; give "
                "folder=, or set FITONCE_DATA to the folder that holds it"
            )
        got = _checksum(path.read_bytes())
        if got != expected:
            hint = "; read another file with read_dodgers" if name == "dodgers" else ""
            raise ValueError(
                f"{path.name} is not the file of '{name}': its checksum is {got[:12]}..., "
                f"expected {expected[:12]}...{hint}"
            )
        found.append(path)
    return found


def _checksum(content: bytes) -> str:
    """sha256, of text with Unix line ends."""
    binary = content.startswith(b"PK")
    return hashlib.sha256(content if binary else content.replace(b"\r\n", b"\n")).hexdigest()


def here(name: str) -> Path | None:
    """The main file of a data set if it is on this machine, else None."""
    require_choice("name", name, SOURCES)
    return _find(SOURCES[name].file, _folders())


def fetch(name: str) -> Path:
    """The main file of a data set, downloaded unless it is here; a wrong checksum is an error."""
    found, source = here(name), SOURCES[name]
    if found is not None:
        return found
    if source.url is None:
        raise ValueError(
            f"'{name}' is not offered for download; put {source.file} in a folder and set "
            "FITONCE_DATA to it"
        )
    target = Path(os.environ.get("FITONCE_DATA") or _cache()) / source.file
    target.parent.mkdir(parents=True, exist_ok=True)
    expected = source.files[source.file]
    unzip = pooch.Unzip(members=[source.member]) if source.member else None
    try:
        got = pooch.retrieve(
            source.url, None if unzip else expected, fname=None if unzip else target.name,
            path=target.parent, processor=unzip, progressbar=False,
        )  # fmt: skip
    except ValueError as error:
        raise ValueError(f"'{name}' could not be fetched: {str(error).splitlines()[0]}") from None
    except Exception as error:  # network errors have many types
        raise ValueError(
            f"'{name}' could not be fetched ({type(error).__name__}); download it from {source.url} "
            "and set FITONCE_DATA to its folder"
        ) from None
    if unzip is None:
        return Path(got)
    content = Path(got[0]).read_bytes()
    if _checksum(content) != expected:
        raise ValueError(f"'{name}' could not be fetched: the downloaded file has the wrong checksum")
    put_whole(target, content)
    return target
