"""Small files of every kind that the command line reads, damaged at random, and options of commands."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import strategies as st

import fitonce as fo
from map_cases import wall

COUNTS = [2, 3, 1, 9, 8, 11, 2, 1, 3, 10, 9, 12, 2, 2, 1, 3, 8, 9]
_TABLE = "day,count,who\n" + "".join(
    f"2024-01-{day + 1:02d},{count},{'ab'[day // 9]}\n" for day, count in enumerate(COUNTS)
)
_NUMBERS = "x;y\n" + "".join(f"{c / 3:.2f};{7 - c}\n".replace(".", ",") for c in COUNTS)
_SITES = "name,cases,people\n" + "".join(f"s{k},{c},{90 + c}\n" for k, c in enumerate(COUNTS[:6]))
_EDGES = "i,j\n0,1\n1,2\n2,3\n3,4\n4,5\n0,5\n"
_WORDS = [("Oslo", "B-LOC"), ("is", "O"), ("in", "O"), ("New", "B-LOC"), ("York", "I-LOC"), (".", "O")]
_SENTENCES = [_WORDS[:3], _WORDS[1:], _WORDS[3:], _WORDS[:2], _WORDS[2:5]]
_CONLL = "\n".join("".join(f"{word} {tag}\n" for word, tag in part) for part in _SENTENCES)
_LINES = "".join(
    json.dumps({"tokens": [w for w, _ in part], "tags": [t for _, t in part]}) + "\n"
    for part in _SENTENCES
)
_CRFSUITE = "\n".join("".join(f"{tag}\tw={word}\tn\n" for word, tag in part) for part in _SENTENCES)
_MAP = json.dumps(wall(2, 3))


@cache
def _saved_fit() -> str:
    with TemporaryDirectory() as folder:
        fit = fo.fit(fo.models.PoissonHMM(2), [float(c) for c in COUNTS], restarts=1, optima=0)
        return fit.save(Path(folder) / "fit.json").read_text()


_QUICK = ["--restarts", "1", "--optima", "0", "--no-cache", "--json"]
_TAGS = ["--model", "crf", "--folds", "sequences", "--k", "2", *_QUICK]
_HMM = ["--folds", "kfold", "--k", "3", *_QUICK]
# Files, of which the first is damaged, and the command.
COMMANDS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "counts": (
        {"a.csv": _TABLE},
        ["cv", "a.csv", "--model", "poisson-hmm", "--columns", "count", *_HMM],
    ),
    "groups": ({"a.csv": _TABLE}, ["cv", "a.csv", "--model", "poisson-hmm", "--group", "who", *_HMM]),
    "numbers": ({"a.csv": _NUMBERS}, ["cv", "a.csv", "--model", "gaussian-hmm", *_HMM]),
    "tabs": (
        {"a.tsv": _TABLE.replace(",", "\t")},
        ["cv", "a.tsv", "--model", "poisson-hmm", "--time", "day", *_HMM],
    ),
    "conll": ({"a.conll": _CONLL}, ["cv", "a.conll", *_TAGS]),
    "lines": ({"a.jsonl": _LINES}, ["cv", "a.jsonl", *_TAGS]),
    "crfsuite": ({"a.crfsuite": _CRFSUITE}, ["cv", "a.crfsuite", *_TAGS]),
    "saved": ({"fit.json": _saved_fit}, ["cv", "fit.json", "--folds", "kfold", "--k", "3", "--json"]),
    "edges": (
        {"e.csv": _EDGES, "a.csv": _SITES},
        ["cv", "a.csv", "--model", "potts-poisson", "--columns", "cases", "--edges", "e.csv", "--beta",
         "0.5", "--folds", "points", *_QUICK],
    ),
    "map": (
        {"a.geojson": _MAP},
        ["cv", "a.geojson", "--model", "potts-poisson", "--columns", "n", "--beta", "0.5", "--folds",
         "points", *_QUICK],
    ),
}  # fmt: skip
_TOKENS = [
    "", ",", ";", "\t", "\n", "\n\n\n", "\r\n", "\r", '"', "'", "\0", "\ufeff", "NaN", "inf", "-1",
    "1e400", "2.5", "9" * 400, "x", "\u96ea", "\ud83d\ude00", "=1+1", "<b>", "[", "]", "{", "}", "null",
    "true",
    "[" * 2000, '{"a":' * 300, "count", "a,a", "2024-13-45", "B-", "I-LOC", "O", " ", "0,0", "0,99",
    "-5,2", '"coordinates": []', '"type": "Point"', "999999999999", "1e-300", "\u2028", "\x1b[31m",
    "../x", "-inf",
]  # fmt: skip
_FLAGS = [
    ["--states", "0"], ["--states", "3"], ["--states", "x"], ["--k", "99"], ["--k", "-1"],
    ["--seed", "7"], ["--seed", "-1"], ["--columns", "\u96ea"], ["--columns", ""], ["--time", "count"],
    ["--missing", "2"], ["--missing", "x"], ["--decimal", ","], ["--method", "exact"], ["--method", "x"],
    ["--loss", "joint"], ["--scheme", "B"], ["--group", "day"],
    ["--from", "2024-01-05", "--time", "day"],
    ["--no-gaps"], ["--encoding", "latin-1"], ["--encoding", "utf-16"], ["--features", "words"],
    ["--exposure", "count"], ["--beta", "nan"], ["--names", "name"], ["--within", "20 km"],
    ["--neighbours", "rook"], ["--neighbours", "nearest"], ["--tolerance", "0"], ["--max-seconds", "0"],
    ["--memory-limit", "1KB"], ["--memory-limit", "x"], ["--format", "conll"], ["--tag-column", "1"],
    ["--word-column", "tokens"], ["--order", "2"], ["--durations", "poisson"], ["--folds", "future"],
    ["--folds", "blocks", "--percent", "20"], ["--folds", "points"], ["--scale", "1e9"],
]  # fmt: skip
_operations = st.tuples(
    st.sampled_from(["cut", "end", "insert", "insert", "replace", "double", "swap lines"]),
    st.floats(0, 1),
    st.sampled_from([1, 1, 2, 5, 20, 100]),
    st.sampled_from(_TOKENS),
)
_encodings = st.sampled_from(["utf-8"] * 12 + ["utf-8-sig", "utf-16", "latin-1", "cp500"])


def damage(text: str, operation: tuple[str, float, int, str]) -> str:
    """The text after one accident at a share of its length."""
    kind, share, length, token = operation
    at = int(share * len(text))
    if kind == "cut":
        return text[:at] + text[at + length :]
    if kind == "end":
        return text[:at]
    if kind == "insert":
        return text[:at] + token + text[at:]
    if kind == "replace":
        return text[:at] + token + text[at + length :]
    if kind == "double":
        return text[: at + length] + text[at:]
    lines = text.split("\n")
    at = min(int(share * len(lines)), len(lines) - 1)
    lines[at], lines[-1 - at] = lines[-1 - at], lines[at]
    return "\n".join(lines)


@st.composite
def files(draw: Any, names: tuple[str, ...] = tuple(COMMANDS)) -> dict[str, Any]:
    """A command, with files that are whole or damaged."""
    contents, words = COMMANDS[draw(st.sampled_from(names))]
    made = {name: text() if callable(text) else text for name, text in contents.items()}
    first = next(iter(made))
    operations = draw(st.lists(_operations, max_size=3))
    for operation in operations:
        made[first] = damage(made[first], operation)
    encoding = draw(_encodings)
    flags = draw(st.one_of(st.just([]), st.just([]), st.sampled_from(_FLAGS)))
    return {
        "files": {name: text.encode(encoding, "replace") for name, text in made.items()},
        "words": [*words, *flags],
        "plain": not operations and not flags and encoding in ("utf-8", "utf-8-sig"),
    }
