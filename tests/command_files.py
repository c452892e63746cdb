"""The files that commands of the documents name, made small: counts, maps, words and tags."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
from tests.map_cases import wall

import fitonce as fo
from fitonce.cli.examples import example_of

SENTENCES = [
    [("Ada", "B-PER"), ("met", "O"), ("Mr", "B-PER"), ("Babbage", "I-PER")],
    [("She", "O"), ("lived", "O"), ("in", "O"), ("London", "B-LOC")],
    [("Charles", "B-PER"), ("wrote", "O"), ("from", "O"), ("Paris", "B-LOC"), (".", "O")],
] * 5


def write_files(folder: Path) -> None:
    """Every file that a command of the documents reads and no command before it writes."""
    _counts(folder)
    _maps(folder)
    _words(folder)


def _counts(folder: Path) -> None:
    rng = np.random.default_rng(0)
    counts = pd.DataFrame(
        {
            "day": pd.date_range("2024-01-01", periods=80, freq="D"),
            "count": rng.poisson(np.repeat([2, 9], 40)),
        }
    ).drop(index=[7, 8])
    for name in ("counts.csv", "quakes.csv"):
        counts.to_csv(folder / name, index=False)
    calls = counts.drop(columns="day").rename(columns={"count": "calls"})
    weather = {name: rng.normal(size=len(calls)).round(2) for name in ("heat", "wind", "hour")}
    calls.assign(**weather).to_csv(folder / "calls.csv", index=False)
    sales = 50.0 + np.cumsum(rng.normal(size=60)) + np.tile(3.0 * np.cos(np.arange(12) / 2), 5)
    months = pd.date_range("2019-01-01", periods=60, freq="MS")
    pd.DataFrame({"month": months, "sales": sales}).to_csv(folder / "sales.csv", index=False)
    factor, quarters = (
        rng.normal(size=(60, 1)).cumsum(0) / 4,
        pd.date_range("2010-01-01", periods=60, freq="QS"),
    )
    macro = pd.DataFrame(factor + rng.normal(size=(60, 6)), columns=list("abcdef"))
    macro.assign(quarter=quarters).to_csv(folder / "macro.csv", index=False)
    example_of("hmm").write(folder, force=False)
    fit = fo.fit(fo.models.PoissonHMM(2), counts["count"].to_numpy(float), restarts=1)
    fo.loo(fit).save(folder / "saved.json")


def _maps(folder: Path) -> None:
    counties = wall(rows=4, columns=5)
    for feature in counties["features"]:
        given = feature["properties"]
        feature["properties"] = {"NAME": given["name"], "deaths": given["n"], "births": given["births"]}
    (folder / "counties.geojson").write_text(json.dumps(counties))
    _shapefile(counties, folder / "sids2.shp", {"deaths": "SID74", "births": "BIR74"})
    _shapefile(wall(rows=4, columns=5), folder / "tracts.shp", {"code": "GEOID"})
    crimes = [
        {"GEOID": feature["properties"]["code"], "year": year, "violent": feature["properties"]["n"]}
        for feature in wall(rows=4, columns=5)["features"]
        for year in (2017, 2018)
    ]
    pd.DataFrame(crimes).to_csv(folder / "crimes.csv", index=False)


def _shapefile(content: dict, path: Path, names: dict[str, str]) -> None:
    import geopandas

    frame = geopandas.GeoDataFrame.from_features(content, crs="EPSG:4326")
    frame.rename(columns=names).to_file(path)


def _words(folder: Path) -> None:
    text = "\n\n".join("\n".join("\t".join(token) for token in sentence) for sentence in SENTENCES)
    for name in ("corpus.conll", "train.conll", "en_ewt-ud-dev.iob2"):
        (folder / name).write_text(text + "\n")
    rows = [
        {"sentence_id": number, "token": word, "pos": word[-1], "chunk": word[:1], "ner": tag}
        for number, sentence in enumerate(SENTENCES)
        for word, tag in sentence
    ]
    pd.DataFrame(rows).to_csv(folder / "tokens.csv", index=False)
    lines = [
        json.dumps({"tokens": [word for word, _ in one], "tags": [tag for _, tag in one]})
        for one in SENTENCES
    ]
    (folder / "corpus.jsonl").write_text("\n".join(lines))
    (folder / "glove.6B.100d.txt").write_text("ada 1 2\nlondon 3 4\n")
