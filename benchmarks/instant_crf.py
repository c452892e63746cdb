"""CRFs on two corpora of named entities: a certified fit from a cold process, and memory of `loo`.

Features are shapes of words, and the most frequent words, prefixes, suffixes and neighbours, as many as
make D about 1,000 and 4,000. CRFsuite minimises the same function, and is timed to the first iteration
whose gradient is as small as ours.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
from reproduce import ner
from reproduce.cases import machine

import fitonce as fo

_SHAPES = 30
_SCALE = 3.0
_FIT = """
import sys, time
started = time.perf_counter()
sys.path.insert(0, {root!r})
from benchmarks import instant_crf
import fitonce as fo
reading, used = time.perf_counter(), time.process_time()
data = instant_crf.data({corpus!r}, {size})
reading, used = time.perf_counter() - reading, time.process_time() - used
fit = fo.fit(fo.models.LinearChainCRF(scale=instant_crf._SCALE), data)
print(time.perf_counter() - started - reading, time.process_time() - used, end=" ")
print(fit.gradient_norm, len(fit.theta), fit.ok)
"""
_SUITE = """
import sys
sys.path.insert(0, {root!r})
from benchmarks import instant_crf
instant_crf.train({corpus!r}, {size}, {most})
"""
_LOO = """
import sys, threading, time
sys.path.insert(0, {root!r})
from benchmarks import instant_crf
import fitonce as fo
data = instant_crf.data({corpus!r}, {size})
fit = fo.fit(fo.models.LinearChainCRF(scale=instant_crf._SCALE), data)
now = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096
before = now()
peak, done = [before], []
def watch():
    while not done:
        peak[0] = max(peak[0], now())
        time.sleep(0.02)
threading.Thread(target=watch, daemon=True).start()
started = time.perf_counter()
result = fo.loo(fit, refine={refine})
done.append(True)
print(time.perf_counter() - started, (peak[0] - before) / 1e9, len(result.folds), result.estimate)
"""


def data(corpus: str, size: int) -> fo.Labelled:
    """Labelled words of the training part, with features that make about so many parameters."""
    train = ner.ewt("train") if corpus == "uner_ewt" else ner.wnut("train")
    tags = len(train.tag_names)
    width = (size - tags * (tags + 3)) // tags
    features = _features(train.words, width)
    return fo.labelled(features, train.tags, tags=train.tag_names, words=train.words)


def _features(sentences: list[list[str]], width: int) -> list[np.ndarray]:
    found = [_attributes([word.lower() for word in words]) for words in sentences]
    counts = Counter(name for rows in found for row in rows for name in row)
    chosen = [name for name, _ in counts.most_common(width - _SHAPES)]
    number = {name: _SHAPES + place for place, name in enumerate(chosen)}
    made = []
    for shapes, rows in zip(fo.word_features(sentences), found, strict=True):
        table = np.zeros((len(rows), width))
        table[:, :_SHAPES] = shapes
        for step, row in enumerate(rows):
            table[step, [number[name] for name in row if name in number]] = 1.0
        made.append(table)
    return made


def _attributes(words: list[str]) -> list[list[str]]:
    beside = ["", *words, ""]
    return [
        [f"is {word}", f"begins {word[:3]}", f"ends {word[-3:]}", f"after {before}", f"before {after}"]
        for word, before, after in zip(words, beside, beside[2:], strict=False)
    ]


def train(corpus: str, size: int, most: int) -> None:
    """CRFsuite's own report of its iterations, on the same data with the same prior."""
    import pycrfsuite

    read = data(corpus, size)
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=True)
    tags, ends = np.array(read.tags), np.cumsum(read.lengths)
    for start, end in zip(ends - read.lengths, ends, strict=True):
        rows = [{f"f{q}": row[q] for q in np.flatnonzero(row)} for row in read.features[start:end]]
        for row in rows:
            row["bias"] = 1.0
        rows[0]["first"] = rows[-1]["last"] = 1.0
        trainer.append(pycrfsuite.ItemSequence(rows), tags[read.labels[start:end]].tolist())
    options = {"c2": 0.5 / _SCALE**2, "max_iterations": most, "epsilon": 1e-14, "delta": 0.0}
    trainer.set_params(options | {"feature.possible_states": True, "feature.possible_transitions": True})
    used = time.process_time()
    trainer.train(os.devnull)
    print(f"processor time: {time.process_time() - used}")


def main() -> None:
    print(machine())
    for corpus in ("wnut17", "uner_ewt"):
        for size in (1000, 4000):
            _fit(corpus, size)
            _loo(corpus, size)


def _fit(corpus: str, size: int) -> None:
    how = {"root": str(Path(__file__).parents[1]), "corpus": corpus, "size": size}
    _said(_FIT.format(**how))  # so that the loops are compiled
    seconds, used, norm, count, certified = _said(_FIT.format(**how)).split()
    log = _said(_SUITE.format(**how, most=3000))
    norms = np.array([float(found) for found in re.findall(r"Error norm: ([-\d.e+]+)", log)])
    times = np.cumsum([float(found) for found in re.findall(r"this iteration: ([\d.]+)", log)])
    close = np.flatnonzero(norms <= max(float(norm), 1e-6))  # it shows six decimals
    place = close[0] if close.size else len(norms) - 1  # or where its line search fails
    theirs = float(re.findall(r"processor time: ([\d.]+)", log)[0]) * times[place] / times[-1]
    print(
        f"{corpus}, D = {count}, certified: {certified}, gradient {float(norm):.0e}: {float(seconds):.1f} s "
        f"from a cold process, {float(used):.1f} s of processors; CRFsuite {times[place]:.1f} s, "
        f"{theirs:.1f} s of one processor, for {place + 1} iterations to a gradient of "
        f"{norms[place]:.0e}; ours takes {float(used) / theirs:.2f} of its processor time",
        flush=True,
    )


def _loo(corpus: str, size: int) -> None:
    how = {"root": str(Path(__file__).parents[1]), "corpus": corpus, "size": size, "refine": 0}
    seconds, grown, count, estimate = _said(_LOO.format(**how)).split()
    print(
        f"{corpus}, D about {size}, loo of {int(count):,} labels: {float(seconds):.1f} s, "
        f"{float(grown):.2f} GB more than before, loss {float(estimate):.4f}",
        flush=True,
    )


def _said(source: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", source], check=True, capture_output=True, text=True, env=os.environ
    ).stdout
