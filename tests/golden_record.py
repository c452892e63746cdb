"""The golden record: what each registered model answers, kept so that no rebuilding changes it unseen.

    python tests/golden_record.py [NAME ...]

writes it anew, of all models or of some, into tests/golden: `NAME.json`, the fit; `NAME.npz`, arrays;
`NAME.txt`, what is printed, with times masked. `test_golden.py` compares. Derivatives are taken half a
standard error off the optimum, at a point that the record holds, with all data and without three folds.
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
ENTRIES = {entry.name: entry for entry in entries()}
_OFF = 0.5  # standard errors between the optimum and the point of derivatives
_FLAGS = [(False, False), (False, True), (True, False), (True, True)]  # of scheme B
_SHAPES = ("poisson", "gaussian-unequal", "transition-regression", "potts-poisson", "potts-learned")
_REFITS = 5  # points that influence refits: a fixed number, where the default depends on time

Arrays = dict[str, np.ndarray]


def saved_fit(name: str) -> fo.Fit:
    """The fit of a registered model that the record holds."""
    path, entry = FOLDER / f"{name}.json", ENTRIES[name]
    with suppress(WithoutModelError):
        return fo.load(path, data=entry.data)
    return fo.load(path, data=entry.data, model=entry.model)


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
        return cls(ENTRIES[name], fit, fit.theta + _OFF * spread * np.clip(direction, -1.5, 1.5))

    @cached_property
    def folds(self) -> fo.Folds:
        """Three, of points."""
        return fo.folds.iid(self.fit.data, percent=6.0, n=3, seed=3)

    @cached_property
    def whole(self) -> fo.Folds:
        """Three, of whole sequences."""
        return fo.folds.structures(self.fit.data).some([0, 1, 2])

    def along(self, scheme: Any) -> fo.Folds:
        """The folds that a scheme is for."""
        return self.whole if scheme is not None and scheme.kind == "sequences" else self.folds

    # --- parts of the record -----------------------------------------------------------------------

    @in_float64
    def derivatives(self, scheme: Any, kernel: Any = None) -> Arrays:
        """Values, gradients, H, J and losses at the point along the path of a scheme."""
        objective = self.fit.objective if kernel is None else self.objective(kernel)
        if scheme is not None:
            objective = objective.with_scheme(scheme)
        folds = self.along(scheme)
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
            "loss": objective.pointwise_losses(thetas[1:], weights[1:], scored),
        }
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
        if traits.m_steps == "all":
            value, theta = objective.m_step(self.point)
            found["m_step"] = np.concatenate([[value], theta])
        return found

    def exact(self, scheme: Any, kernel: Any = None) -> Arrays:
        """Three folds refitted."""
        fit = self.fit
        if kernel is not None:
            fit = fo.fit_at(fit.model, fit.data, fit.params, kernel=kernel)
        return of_folds(fo.cross_validate(fit, self.along(scheme), method="exact", scheme=scheme))

    @cached_property
    def answers(self) -> dict[str, Any]:
        """What users ask for and print, by its name."""
        fit = self.fit
        found = {"fit": fit, "auto": fo.cross_validate(fit, self.folds)}
        if self.entry.sequences:
            found["auto of sequences"] = fo.cross_validate(fit, self.whole)
        if has_a_sweep(self.entry):
            found |= {"loo": fo.loo(fit), "influence": fo.influence(fit, refine=_REFITS)}
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
    return [schemes.A(), *cut, *of_sequences]


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
        "estimate": np.array([cv.estimate, cv.control, cv.se]),
        **{name: table[name].to_numpy(float) for name in ("loss", "control", "error")},
        **{name: table[name].to_numpy(str) for name in ("verdict", "rung", "ok")},
    }


def _of_table(table: Any) -> Arrays:
    numbers = table.select_dtypes("number")
    found = {"table": numbers.to_numpy(float), "columns": np.array(list(map(str, numbers.columns)))}
    return found | ({"how": table["how"].to_numpy(str)} if "how" in table else {})


# --- the record as a whole -----------------------------------------------------------------------------


def parts_of(case: Case) -> Iterator[tuple[str, Arrays]]:
    """Everything that is recorded of a model, by part."""
    for scheme in schemes_of(case.entry):
        yield f"derivatives {scheme or 'own'}", case.derivatives(scheme)
        yield f"exact {scheme or 'own'}", case.exact(scheme)
    if has_a_sweep(case.entry):
        yield "sweep", case.sweep()
    yield "latent", case.latent()
    yield from case.tables()


def by_differences(fit: fo.Fit) -> list[str]:
    """The parts that come from differences along theta, of which fewer digits are right."""
    return ["H", "J", "slope"] if family_of(fit.model).name == "state-space" else []


def write(name: str) -> int:
    """Fit a registered model, and record what it answers; returns bytes."""
    entry = ENTRIES[name]
    paths = [FOLDER / f"{name}.{ending}" for ending in ("json", "npz", "txt")]
    fo.fit(entry.model, entry.data, restarts=2, progress=False).save(paths[0], data=False, force=True)
    case = Case.made(name, saved_fit(name))
    arrays = {f"{part}/{one}": array for part, some in parts_of(case) for one, array in some.items()}
    rough = np.array(by_differences(case.fit), str)
    np.savez_compressed(paths[1], point=case.point, by_differences=rough, **arrays)
    paths[2].write_text(case.printed())
    return sum(path.stat().st_size for path in paths)


def main() -> None:
    for name in sys.argv[1:] or ENTRIES:
        print(f"{name}: {write(name) / 1e3:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
