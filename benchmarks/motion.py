"""Motion capture, leave one sequence out of a Gaussian HMM: cold processes, ours and hmmlearn's loop.

hmmlearn refits from the full fit, by its usual stopping rule (an iteration that gains less than a
hundredth of a nat) and by one near ours (a millionth). It does not look for other optima, so the
comparison is with `optima=0`; what the search takes is printed beside it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from reproduce.cases import machine

FOLDS = 20
_DATA = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from reproduce import mocap
data = mocap.trials().train
"""
_OURS = f"""
import fitonce as fo
fit = fo.fit(fo.models.GaussianHMM(5), data, restarts=1)
cv = fo.cross_validate(fit, fo.folds.structures(fit.data, n={FOLDS}, seed=0), optima={{optima}})
ok = int(cv.folds["ok"].sum())
print(f"estimate {{{{cv.estimate:.4f}}}} (control {{{{cv.control:.4f}}}}), fit certified: {{{{fit.ok}}}}, "
      f"folds: {{{{ok}}}}; {{{{cv.about_optima}}}}")
"""
_HMMLEARN = f"""
import logging
import numpy as np
import fitonce as fo
from hmmlearn.hmm import GaussianHMM
logging.getLogger("hmmlearn").setLevel(logging.ERROR)
left = [int(fold[0]) for fold in fo.folds.structures(data, n={FOLDS}, seed=0).dropped]
full = GaussianHMM(5, n_iter=1000, tol={{tolerance}}, random_state=0)
full.fit(np.concatenate(data), [len(x) for x in data])
losses = []
for fold in left:
    kept = [x for n, x in enumerate(data) if n != fold]
    model = GaussianHMM(5, n_iter=1000, tol={{tolerance}}, init_params="")
    for name in ("startprob_", "transmat_", "means_"):
        setattr(model, name, getattr(full, name))
    model.covars_ = np.stack([np.diag(c) for c in full.covars_])
    model.fit(np.concatenate(kept), [len(x) for x in kept])
    losses.append(-model.score(data[fold]))
print(f"mean loss {{{{np.mean(losses):.4f}}}}")
"""


def main() -> None:
    print(f"{machine()}; 100 sequences, 12 channels, 5 states, {FOLDS} folds")
    ours, said = _timed(_DATA + _OURS.format(optima=0))
    print(f"fitonce auto, optima=0, import and fit included: {ours:.1f} s; {said}", flush=True)
    searched, said = _timed(_DATA + _OURS.format(optima=10))
    print(f"the same with the search for other optima: {searched:.1f} s; {said}", flush=True)
    for tolerance in (1e-2, 1e-6):
        seconds, said = _timed(_DATA + _HMMLEARN.format(tolerance=tolerance))
        ratio = seconds / ours
        print(
            f"hmmlearn, tol={tolerance:g}: {seconds:.1f} s, {ratio:.1f} times ours; {said}", flush=True
        )


def _timed(code: str) -> tuple[float, str]:
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return time.perf_counter() - started, done.stdout.strip()
