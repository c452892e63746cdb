"""What --json prints: strict JSON, versioned, and every key of it in the table of docs/commands.md."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fitonce.cli import app
from fitonce.cli.examples import example_of

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
# Keys whose own keys are names of the user's, or the columns of a table that the page describes as one.
OPEN = {"rows", "skipped", "not_compared", "verdicts", "parameters"}
QUICK = ["--restarts", "1", "--optima", "0", "--no-cache"]


def documented():
    """Keys by command, from rows such as | `cv`, `loo` | `estimate`, `se` | what it is |."""
    section = PAGE.read_text().split("## Numbers for programs")[1].split("\n## ")[0]
    found: dict[str, set[str]] = {}
    for commands, keys in re.findall(r"^\| ((?:`[^|]+`)|all) \| (`[^|]+`) \|", section, re.M):
        for command in re.findall(r"`([^`]+)`", commands) or ["all"]:
            found.setdefault(command, set()).update(re.findall(r"`([^`]+)`", keys))
    return found


def strict(text):
    """JSON without NaN and Infinity, which are none."""

    def refuse(word):
        raise AssertionError(f"--json printed {word}")

    return json.loads(text, parse_constant=refuse)


def keys_of(document, before=""):
    """Paths such as "fit.ok" and "models[].se"."""
    found = set()
    for key, value in document.items():
        path = f"{before}{key}"
        found.add(path)
        if key in OPEN:
            continue
        if isinstance(value, dict):
            found |= keys_of(value, f"{path}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            found |= set().union(*(keys_of(row, f"{path}[].") for row in value))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("json")
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.tile(np.repeat([2, 9], 10), 3))
    pd.DataFrame({"count": counts}).to_csv(folder / "counts.csv", index=False)
    example_of("crf").write(folder, force=False)
    chain = [folder / "counts.csv", "--model", "poisson-hmm", *QUICK]
    for states in (1, 2):
        done = printed("cv", *chain, "--states", states, "--n", 6, "--save", folder / f"{states}.json")
        assert done["wrote"] == [str(folder / f"{states}.json")]
    printed("fit", *chain, "--save", folder / "fit.json")
    pd.DataFrame({"count": counts[:20]}).to_csv(folder / "sites.csv", index=False)
    pairs = {"from": np.arange(19), "to": np.arange(1, 20)}
    pd.DataFrame(pairs).to_csv(folder / "pairs.csv", index=False)
    graph = [folder / "sites.csv", "--model", "potts-poisson", "--edges", folder / "pairs.csv", *QUICK]
    printed("fit", *graph, "--beta", 1, "--save", folder / "map.json")
    return folder


def printed(*words):
    done = CliRunner().invoke(app, [str(word) for word in words] + ["--json"])
    assert done.exit_code == 0, done.output
    return strict(done.stdout)


CALLS = {
    "cv": lambda folder: ["cv", folder / "fit.json", "--n", 6],
    "cv of sequences": lambda folder: ["cv", folder / "tags.conll", "--model", "crf", *QUICK],
    "cv of a future": lambda folder: ["cv", folder / "fit.json", "--folds", "future", "--n", 2],
    "cv of a map": lambda folder: ["cv", folder / "map.json", "--n", 3],
    "loo": lambda folder: ["loo", folder / "fit.json"],
    "loo of a map": lambda folder: ["loo", folder / "map.json"],
    "loo of labels": lambda folder: ["loo", folder / "tags.conll", "--model", "crf", *QUICK],
    "influence": lambda folder: ["influence", folder / "fit.json"],
    "influence of labels": lambda folder: ["influence", folder / "tags.conll", "--model", "crf", *QUICK],
    "select": lambda folder: [
        "select", folder / "counts.csv", "--model", "poisson-hmm", "--states", "1,2", "--k", 5, *QUICK,
    ],
    "compare": lambda folder: ["compare", folder / "1.json", folder / "2.json"],
    "fit": lambda folder: ["fit", folder / "counts.csv", "--model", "poisson-hmm", *QUICK],
    "decode": lambda folder: ["decode", folder / "fit.json"],
    "forecast": lambda folder: ["forecast", folder / "fit.json", "--steps", 2],
    "sample": lambda folder: ["sample", folder / "fit.json", "--n", 3],
    "models": lambda folder: ["models"],
    "models NAME": lambda folder: ["models", "poisson-hmm"],
    "data list": lambda folder: ["data", "list"],
}  # fmt: skip


@functools.cache
def keys_printed(folder, name):
    document = printed(*CALLS[name](folder))
    assert document["schema"] == 1
    return keys_of(document)


@pytest.mark.parametrize("name", CALLS)
def test_every_key_that_is_printed_is_in_the_table(folder, name):
    known, command = documented(), name.split(" of ")[0]
    missing = sorted(keys_printed(folder, name) - known["all"] - known.get(command, set()))
    assert not missing, (
        f"`fitonce {command} --json` prints {', '.join(missing)}: add a row for it to the table of "
        f"'Numbers for programs' in {PAGE.name}"
    )


@pytest.mark.parametrize("name", sorted({name.split(" of ")[0] for name in CALLS}))
def test_every_key_of_the_table_is_printed(folder, name):
    found = set().union(*(keys_printed(folder, call) for call in CALLS if call.split(" of ")[0] == name))
    assert not documented()[name] - found - {"skipped", "wrote"}


def test_numbers_that_are_not_finite_are_null(folder):
    """A single fold has no standard error."""
    words = ["cv", folder / "fit.json", "--folds", "future", "--n", 1]
    document = printed(*words)
    assert document["folds"] == 1
    assert document["se"] is None
