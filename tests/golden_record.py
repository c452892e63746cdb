"""The golden record: what each registered model answers, kept so that no rebuilding changes it unseen.

    python tests/golden_record.py [--fit] [NAME ...]

writes it anew, of all models or of some, into tests/golden: `NAME.json`, the fit with its data;
`NAME.npz`, arrays; `NAME.txt`, what is printed, with times masked. Fits and points that are there stay,
unless --fit asks for new ones, and so do arrays that agree; what changes is named. Derivatives are taken
half a standard error off the optimum, at a recorded point, with all data and without three folds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import fitonce as fo
from documents import masked
from fitonce import schemes
from fitonce.core.numerics import in_float64
from fitonce.fitting.loading import WithoutModelError
from fitonce.objectives.families import family_of, objective_of
from registry import Entry, entries

FOLDER = Path(__file__).parent / "golden"
ENTRIES = {entry.name: entry for entry in entries()}  # those registered
_OFF = 0.5  # standard errors between the optimum and the point of derivatives
_FLAGS = [(False, False), (False, True), (True, False), (True, True)]  # of scheme B
_SHAPES = ("poisson", "gaussian-unequal", "transition-regression", "potts-poisson", "potts-learned")
_MANY = ("transition-regression-support",)  # optima, of which a search finds other ones elsewhere
_REFITS = 5  # points that influence refits: a fixed number, where the default depends on time

Arrays = dict[str, np.ndarray]


def faces() -> dict[str, Entry]:
    """Fits on the boundary: probabilities, categories and a variance of zero, and a unit root."""
    flat = {"initial_concentration": 1.0, "transition_concentration": 1.0}
    rng, cycle = np.random.default_rng(0), np.tile(np.repeat([0, 1, 2], [10, 12, 9]), 6)
    state, pick = np.tile(np.repeat([0, 1], 15), 6), np.random.default_rng(1)
    some = np.where(state == 0, pick.integers(2, size=180), 1 + pick.integers(2, size=180)).astype(float)
    walk = np.diff(np.random.default_rng(9).normal(size=81))
    made = [
        Entry("face-transitions", fo.models.HMM(3, "gaussian", **flat), rng.normal(5.0 * cycle, 1.0)),
        Entry("face-categories", fo.models.HMM(2, fo.models.Categorical(3, 1.0)), some),
        Entry("face-variance", fo.models.Structural(), np.random.default_rng(10).normal(size=60)),
        Entry("face-unit-root", fo.models.SARIMAX((0, 0, 1)), walk),
    ]
    return {entry.name: entry for entry in made}


FACES = faces()
RECORDED = ENTRIES | FACES


def saved_fit(name: str) -> fo.Fit:
    """The fit of a model that the record holds."""
    path = FOLDER / f"{name}.json"
    with suppress(WithoutModelError):
        return fo.load(path)
    return fo.load(path, model=RECORDED[name].model)


@dataclass(frozen=True)
class Case:
    """A registered model at its saved fit.

    Attributes:
        fit: of the model.
        point: (D,) where derivatives are taken.
    """

    entry: Entry
    fit: fo.Fit
    point: np.ndarray

    @classmethod
    def made(cls, name: str, fit: fo.Fit) -> Case:
        """With a new point."""
        direction = np.random.default_rng(sum(name.encode())).normal(size=len(fit.theta))
        spread = 1.0 / np.sqrt(np.maximum(np.diag(fit.H), 1.0))
        return cls(RECORDED[name], fit, fit.theta + _OFF * spread * np.clip(direction, -1.5, 1.5))

    @cached_property
    def folds(self) -> fo.Folds:
        """Of points: three, or six that take some fits off the boundary."""
        if self.entry.name in FACES:
            return fo.folds.kfold(self.fit.data, 6)
        return fo.folds.iid(self.fit.data, percent=6.0, n=3, seed=3)

    @cached_property
    def sequence_folds(self) -> fo.Folds:
        """Three, of whole sequences."""
        return fo.folds.structures(self.fit.data).some([0, 1, 2])

    def folds_for(self, scheme: Any) -> fo.Folds:
        """The folds that a scheme is for."""
        return self.sequence_folds if scheme is not None and scheme.kind == "sequences" else self.folds

    # --- parts of the record -----------------------------------------------------------------------

    @in_float64
    def derivatives(self, scheme: Any, kernel: Any = None) -> Arrays:
        """Values, gradients, H, J and losses at the point along the path of a scheme."""
        objective = self.fit.objective if kernel is None else self.objective(kernel)
        if scheme is not None:
            objective = objective.with_scheme(scheme)
        folds = self.folds_for(scheme)
        weights = np.concatenate([objective.base[None], folds.weights * objective.base])
        thetas = np.tile(self.point, (len(weights), 1))
        values, gradients = objective.values_and_gradients(thetas, weights)
        scored = np.stack([part[: min(map(len, folds.scored))] for part in folds.scored])
        found = {
            "value": values,
            "gradient": gradients,
            "H": objective.hessians(thetas, weights),
            "J": objective.cross(self.point),
            "log_prior": objective.log_prior(self.point),
            "log_likelihood": objective.log_likelihoods(thetas, weights),
        }
        if not isinstance(scheme, schemes.Increments):
            found["loss"] = objective.pointwise_losses(thetas[1:], weights[1:], scored)
        return {name: np.asarray(array) for name, array in found.items()}

    def objective(self, kernel: Any) -> Any:
        """F by another engine."""
        return objective_of(self.fit.model, self.fit.data, kernel)

    @in_float64
    def sweep(self, kernel: Any = None) -> Arrays:
        """Each point's density given all others, and its slopes."""
        objective = self.fit.objective if kernel is None else self.objective(kernel)
        values, slopes = objective.leave_one_out(self.point)
        return {"value": np.asarray(values), "slope": np.asarray(slopes)}

    @in_float64
    def latent(self) -> Arrays:
        """Probabilities of hidden states, the best path, and one iteration of EM."""
        objective, found = self.fit.objective, {}
        traits = objective.traits
        if traits.hidden_states:
            found["probability"] = np.asarray(objective.state_probabilities(self.point))
        if family_of(self.fit.model).name in ("chain", "labels"):
            found["path"] = np.concatenate(
                [np.asarray(one, str) for one in objective.decode(self.point)]
            )
        if traits.m_steps != "none":
            value, theta = objective.m_step(self.point)
            found["m_step"] = np.concatenate([[value], theta])
        return found

    def exact(self, scheme: Any, kernel: Any = None) -> Arrays:
        """Three folds refitted."""
        fit = self.fit
        if kernel is not None:
            fit = fo.fit_at(fit.model, fit.data, fit.params, kernel=kernel)
        return of_folds(fo.cross_validate(fit, self.folds_for(scheme), method="exact", scheme=scheme))

    @cached_property
    def answers(self) -> dict[str, Any]:
        """What users ask for and print, by its name."""
        fit, how = self.fit, {"optima": 0} if self.entry.name in _MANY else {}
        found = {"fit": fit, "auto": fo.cross_validate(fit, self.folds, **how)}
        if self.entry.sequences:
            found["auto of sequences"] = fo.cross_validate(fit, self.sequence_folds, **how)
        if has_a_sweep(self.entry):
            found |= {"loo": fo.loo(fit, **how), "influence": fo.influence(fit, refine=_REFITS)}
        return found

    def tables(self) -> Iterator[tuple[str, Arrays]]:
        """Folds by default, leave-one-out and influence."""
        for name, answer in self.answers.items():
            if isinstance(answer, fo.CVResult):
                yield name, of_folds(answer)
            elif isinstance(answer, (fo.Influence, fo.LabelAudit)):
                yield name, _of_table(answer.table)

    def printed(self) -> str:
        """All answers as they are printed, without times."""
        return "\n\n".join(f"--- {name}\n{masked(str(a))}" for name, a in self.answers.items()) + "\n"


def schemes_of(entry: Entry) -> list[Any]:
    """All paths that a model has; None: its only one."""
    family = family_of(entry.model).name
    of_sequences = [schemes.Structures()] if entry.sequences else []
    if family == "labels":
        return [schemes.C(), *of_sequences]
    if family == "custom":
        return [None]
    if family not in ("chain", "graph"):
        return [schemes.A(), *of_sequences]
    # B does not look inside a model's potentials: all its paths on one model of each shape.
    flags = _FLAGS if entry.name in _SHAPES else _FLAGS[:1]
    cut = [schemes.B(normalised=n, per_transition=p) for n, p in flags]
    steps = [schemes.Increments()] if family == "chain" and entry.name in _SHAPES else []
    return [schemes.A(), *cut, *of_sequences, *steps]


def has_a_sweep(entry: Entry) -> bool:
    return family_of(entry.model).name != "custom"


def kernels_of(entry: Entry) -> tuple[str, ...]:
    """Engines that compile by JAX, beside the one that is used here."""
    family = family_of(entry.model).name
    if family == "state-space":
        return () if entry.model.density is not None else ("scan", "tree")
    return {"chain": ("scan", "tree"), "labels": ("scan",)}.get(family, ())


def of_folds(cv: fo.CVResult) -> Arrays:
    """The table and the parameters of folds."""
    table = cv.folds
    return {
        "theta": np.asarray(cv.theta),
        "estimate": np.array([cv.estimate, cv.se]),
        **{name: table[name].to_numpy(float) for name in ("loss", "control", "error")},
        **{name: table[name].to_numpy(str) for name in ("verdict", "rung", "ok")},
    }


def _of_table(table: Any) -> Arrays:
    """Each column; places, times and words are compared as they are written."""
    found = {}
    for name, column in table.items():
        exact = name in ("sequence", "time", "site") or column.dtype.kind not in "iuf"
        found[f"column {name}"] = column.to_numpy(str if exact else float)
    return found


# --- the record as a whole -----------------------------------------------------------------------------


def parts_of(case: Case) -> Iterator[tuple[str, Arrays]]:
    """Everything that is recorded of a model, by part."""
    for scheme in schemes_of(case.entry):
        yield f"derivatives {scheme or 'own'}", case.derivatives(scheme)
        if not isinstance(scheme, schemes.Increments):
            yield f"exact {scheme or 'own'}", case.exact(scheme)
    if has_a_sweep(case.entry):
        yield "sweep", case.sweep()
    yield "latent", case.latent()
    yield from case.tables()


def by_differences(fit: fo.Fit) -> list[str]:
    """What comes from differences along theta, of which fewer digits are right."""
    return ["H", "J", "slope"] if family_of(fit.model).name == "state-space" else []


# --- comparing with the record -------------------------------------------------------------------------

CLOSED, ROUGH = 1e-9, 1e-6  # of an array's largest entry: what is derived, and what is from differences
STANDARD_ERRORS = 1e-6  # by which parameters of folds may differ
NATS, SHARE = 1e-9, 0.01  # by which estimated errors may differ
REFITTED = 1e-6  # nats: losses at parameters of folds


def disagreement(part: str, key: str, found: np.ndarray, kept: Arrays, fit: fo.Fit) -> str:
    """How an array differs from the record by more than it may; empty: it does not."""
    told, expected = f"{part}: {key}", kept.get(f"{part}/{key}")
    if expected is None or found.shape != expected.shape:
        return f"{told} has shape {found.shape}, not {None if expected is None else expected.shape}"
    if found.dtype.kind in "US":
        return "" if np.array_equal(found, expected) else f"{told} has other words"
    if not np.array_equal(np.isfinite(found), np.isfinite(expected)):
        return f"{told} is finite elsewhere"
    known = np.isfinite(expected)
    apart = np.abs(np.where(known, found, 0.0) - np.where(known, expected, 0.0))
    if key == "theta":
        apart, allowed = standard_errors(fit, apart_rows(found, expected)), STANDARD_ERRORS
    elif key == "error":
        allowed = np.maximum(NATS, SHARE * np.abs(np.where(known, expected, 0.0)))
    elif key in ("loss", "estimate") and not part.startswith("derivatives"):
        allowed = REFITTED
    else:
        refitted = key.startswith("column") and part == "influence"
        rough = key in kept["by_differences"] or refitted
        allowed = np.abs(expected[known]).max(initial=0.0) * (ROUGH if rough else CLOSED) + 1e-300
    worst = float(np.max(apart / allowed, initial=0.0))
    return f"{told} differs by {worst:.3g} times what it may" if worst > 1.0 else ""


def apart_rows(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """(F, D) differences of finite entries, zeros elsewhere."""
    known = np.isfinite(expected)
    moves = np.where(known, found, 0.0) - np.where(known, expected, 0.0)
    return moves.reshape(-1, found.shape[-1])


def standard_errors(fit: fo.Fit, moves: np.ndarray) -> np.ndarray:
    """(F,) the lengths of moves (F, D)."""
    return np.sqrt(np.maximum(np.einsum("fd,de,fe->f", moves, fit.H, moves), 0.0))


# --- writing it ----------------------------------------------------------------------------------------


def write(name: str, again: bool) -> int:
    """Record what a model answers, with a new fit if it is wanted `again`; returns bytes."""
    entry = RECORDED[name]
    fitted, arrays, text = (FOLDER / f"{name}.{ending}" for ending in ("json", "npz", "txt"))
    kept: Arrays = {}
    if again or not fitted.exists():
        fit = fo.fit(entry.model, entry.data, restarts=2, progress=False)
        fit.save(fitted, force=True)
        case = Case.made(name, saved_fit(name))
    else:
        with np.load(arrays) as file:
            kept = dict(file)
        case = Case(entry, saved_fit(name), kept["point"])
    new = {"point": case.point, "by_differences": np.array(by_differences(case.fit), str)}
    for part, some in parts_of(case):
        for key, array in some.items():
            place = f"{part}/{key}"
            wrong = disagreement(part, key, array, kept, case.fit) if kept else "new"
            new[place] = array if wrong else kept[place]
            if kept and wrong:
                print(f"{name}, {wrong}")
    for gone in sorted(kept.keys() - new.keys()):
        print(f"{name}, {gone} is no longer recorded")
    np.savez_compressed(arrays, **new)
    text.write_text(case.printed())
    return sum(path.stat().st_size for path in (fitted, arrays, text))


def main() -> None:
    again, names = "--fit" in sys.argv, [name for name in sys.argv[1:] if name != "--fit"]
    for name in names or RECORDED:
        print(f"{name}: {write(name, again) / 1e3:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
