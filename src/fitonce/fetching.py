"""Data sets by name: which there are, and how they come to this machine, with checksums."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs
import pooch


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
