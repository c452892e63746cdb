"""What answers must be, by a forward algorithm in logarithms and by enumeration, without fitonce."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import gammaln, logsumexp

import enumeration


def close(what: str, found: Any, expected: Any, size: float = 1.0) -> None:
    """Raise unless numbers agree, up to rounding of numbers of this size."""
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    if found.shape != expected.shape:
        raise AssertionError(f"{what}: shape {found.shape}, expected {expected.shape}")
    # rounding of the terms that were added, and of what remains of them
    off = ~np.isclose(found, expected, rtol=1e-8, atol=1e-8 + 1e-12 * size, equal_nan=True)
    if off.any():
        place = tuple(np.argwhere(off)[0].tolist())
        raise AssertionError(f"{what} {place}: {found[place]!r}, expected {expected[place]!r}")


# --- emissions -------------------------------------------------------------------------------------


def _each(density):
    """A density of single values, of x (T, 1, C) at parameters (K, C)."""
    return lambda p, x: density(p, x[:, None])


def _binomial(p, x):
    return stats.binom.logpmf(x, 30, p["rate"])


def _negative_binomial(p, x):
    size, odds = p["size"], np.log(p["mean"]) - np.log(p["size"])  # SciPy loses means of nearly zero
    ways = gammaln(x + size) - gammaln(size) - gammaln(x + 1.0)
    return ways + x * odds - (x + size) * np.logaddexp(0.0, odds)


def _zero_inflated(p, x):
    with np.errstate(divide="ignore"):
        usual = np.log1p(-p["zeros"]) + stats.poisson.logpmf(x, p["rate"])
        return np.where(x == 0, np.logaddexp(np.log(p["zeros"]), usual), usual)


def _zero_inflated_gamma(p, x):
    positive = stats.gamma.logpdf(x, p["shape"], scale=p["mean"] / p["shape"])
    return np.where(x == 0, np.log(p["zeros"]), np.log1p(-p["zeros"]) + positive)


def _categorical(p, x):
    states, channels, categories = p["probability"].shape
    with np.errstate(divide="ignore"):
        logs = np.log(p["probability"])
    seen = np.nan_to_num(x).astype(int)
    inside = np.clip(seen, 0, categories - 1)
    k, c = np.arange(states)[:, None], np.arange(channels)
    return np.where(seen < categories, logs[k, c, inside], -np.inf)


def _log_normal(p, x):
    logs = np.log(np.where(x > 0, x, 1.0))
    return stats.norm.logpdf(logs, p["mean"], np.sqrt(p["variance"])) - logs


DENSITIES = {
    "poisson": _each(lambda p, x: stats.poisson.logpmf(x, p["rate"])),
    "binomial": _each(_binomial),
    "negative-binomial": _each(_negative_binomial),
    "zero-inflated": _each(_zero_inflated),
    "gaussian": _each(lambda p, x: stats.norm.logpdf(x, p["mean"], np.sqrt(p["variance"]))),
    "spherical": _each(lambda p, x: stats.norm.logpdf(x, p["mean"], np.sqrt(p["variance"])[:, None])),
    "fixed": _each(lambda p, x: stats.norm.logpdf(x, p["mean"], 1.0)),
    "student-t": _each(lambda p, x: stats.t.logpdf(x, p["df"], p["location"], p["scale"])),
    "log-normal": _each(_log_normal),
    "gamma": _each(lambda p, x: stats.gamma.logpdf(x, p["shape"], scale=p["mean"] / p["shape"])),
    "zero-inflated-gamma": _each(_zero_inflated_gamma),
    "exponential": _each(lambda p, x: stats.expon.logpdf(x, scale=p["mean"])),
    "beta": _each(
        lambda p, x: stats.beta.logpdf(
            x, p["mean"] * p["precision"], (1 - p["mean"]) * p["precision"]
        )
    ),
    "von-mises": _each(lambda p, x: stats.vonmises.logpdf(x, p["concentration"], p["mean"])),
    "categorical": _each(_categorical),
}  # fmt: skip


def log_densities(kind: str, params: Any, x: np.ndarray) -> np.ndarray:
    """(T, K) of values (T, C), nan where missing: a channel that is missing counts for nothing."""
    params = {name: np.asarray(value, float) for name, value in params.items()}
    if kind in ("full", "tied"):
        return _joint_normal(params, x)
    with np.errstate(all="ignore"):
        each = DENSITIES[kind](params, x)
    return np.where(np.isnan(x)[:, None], 0.0, each).sum(-1)


def _joint_normal(params: Any, x: np.ndarray) -> np.ndarray:
    mean = params["mean"]
    covariance = np.broadcast_to(params["covariance"], (len(mean), x.shape[1], x.shape[1]))
    table = np.zeros((len(x), len(mean)))
    for t, row in enumerate(x):
        seen = ~np.isnan(row)
        for k in range(len(mean) if seen.any() else 0):
            inner = np.linalg.inv(covariance[k][np.ix_(seen, seen)])
            apart = row[seen] - mean[k, seen]
            table[t, k] = 0.5 * (
                np.linalg.slogdet(inner)[1] - seen.sum() * np.log(2 * np.pi) - apart @ inner @ apart
            )
    return table


# --- chains ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chain:
    """Logarithms: of first states (K,), moves (K, K), ends (K,), and densities of each step (T, K)."""

    initial: np.ndarray
    moves: np.ndarray
    end: np.ndarray
    table: np.ndarray

    @classmethod
    def of(cls, params: Any, table: np.ndarray) -> Chain:
        moves = np.asarray(params["transition"], float)
        initial = np.asarray(params["initial"] if "initial" in params else _stationary(moves), float)
        end = np.asarray(params.get("end", np.ones(len(moves))), float)
        with np.errstate(divide="ignore"):
            stay = np.log1p(-end) if "end" in params else np.zeros(len(moves))
            return cls(np.log(initial), np.log(moves) + stay[:, None], np.log(end), table)

    def seen(self, kept: np.ndarray) -> np.ndarray:
        """(T, K) densities, where steps that are not kept (T,) count for nothing."""
        return np.where(kept[:, None], self.table, 0.0)

    def forward(self, kept: np.ndarray) -> np.ndarray:
        """(T, K) log p(x_1 .. x_t, z_t) of the kept steps."""
        seen, found = self.seen(kept), np.empty(self.table.shape)
        with np.errstate(invalid="ignore"):
            found[0] = self.initial + seen[0]
            for t in range(1, len(seen)):
                found[t] = logsumexp(found[t - 1][:, None] + self.moves, axis=0) + seen[t]
        return found

    def log_likelihood(self, kept: np.ndarray) -> float:
        return float(logsumexp(self.forward(kept)[-1] + self.end))

    def posterior(self, kept: np.ndarray) -> np.ndarray:
        """(T, K) logarithms, given the kept steps."""
        seen, later = self.seen(kept), np.empty(self.table.shape)
        later[-1] = self.end
        for t in range(len(seen) - 2, -1, -1):
            later[t] = logsumexp(self.moves + (seen[t + 1] + later[t + 1])[None], axis=1)
        both = self.forward(kept) + later
        with np.errstate(invalid="ignore"):
            return both - logsumexp(both, axis=1, keepdims=True)

    def predictive(self, kept: np.ndarray) -> np.ndarray:
        """(T,) log p(x_t | kept steps), for steps that are not kept."""
        return logsumexp(self.posterior(kept) + self.table, axis=1)

    def score(self, path: np.ndarray) -> float:
        """Of one path of states."""
        inside = self.moves[path[:-1], path[1:]].sum()
        steps = self.table[np.arange(len(path)), path].sum()
        return float(self.initial[path[0]] + inside + steps + self.end[path[-1]])

    def best(self) -> float:
        """The largest score of a path."""
        reach = self.initial + self.table[0]
        for row in self.table[1:]:
            reach = (reach[:, None] + self.moves).max(0) + row
        return float((reach + self.end).max())


def _stationary(moves: np.ndarray) -> np.ndarray:
    states = len(moves)
    system = np.vstack([moves.T - np.eye(states), np.ones(states)])
    return np.linalg.lstsq(system, np.append(np.zeros(states), 1.0), rcond=None)[0].clip(0.0)


# --- fields ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """A Potts field by enumeration: `table` (V, K) of densities, `edges` pairs of sites, `beta`."""

    table: np.ndarray
    edges: list[tuple[int, int]]
    beta: float

    def scores(self, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Configurations (M, V), and their scores (M,)."""
        sites, classes = self.table.shape
        alike = self.beta * np.eye(classes)
        states, unary = (classes,) * sites, np.where(kept[:, None], self.table, 0.0)
        scores = enumeration.field_scores(states, unary, self.edges, [alike] * len(self.edges))
        return enumeration.configurations(states), scores

    def log_likelihood(self, kept: np.ndarray) -> float:
        nothing = np.zeros(len(self.table), bool)
        return float(logsumexp(self.scores(kept)[1]) - logsumexp(self.scores(nothing)[1]))

    def posterior(self, kept: np.ndarray) -> np.ndarray:
        """(V, K) logarithms, given the kept sites."""
        z, scores = self.scores(kept)
        total, found = logsumexp(scores), np.empty(self.table.shape)
        for site, column in enumerate(z.T):
            for k in range(found.shape[1]):
                found[site, k] = logsumexp(scores[column == k]) - total
        return found

    def predictive(self, kept: np.ndarray) -> np.ndarray:
        return logsumexp(self.posterior(kept) + self.table, axis=1)


# --- labels ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tags:
    """A sequence of a linear-chain CRF by enumeration: scores (T, K), moves (K, K), labels (T,), -1
    where unknown."""

    unary: np.ndarray
    moves: np.ndarray
    labels: np.ndarray

    @classmethod
    def of(cls, params: Any, features: np.ndarray, labels: np.ndarray) -> Tags:
        unary = features @ params["weights"] + params["bias"] if "weights" in params else 1.0 * features
        unary[0] += params["start"]
        unary[-1] += params["end"]
        return cls(unary, np.asarray(params["transition"], float), labels)

    def log_sum(self, kept: np.ndarray) -> float:
        """Of the paths that agree with the kept labels."""
        return float(logsumexp(self._scores(kept)))

    def _scores(self, kept: np.ndarray) -> np.ndarray:
        routes = enumeration.paths(*self.unary.shape)
        fixed = kept & (self.labels >= 0)
        agree = (routes[:, fixed] == self.labels[fixed]).all(1)
        return np.where(agree, enumeration.path_scores(self.unary, self.moves), -np.inf)

    def log_likelihood(self, kept: np.ndarray) -> float:
        return self.log_sum(kept) - self.log_sum(np.zeros(len(kept), bool))

    def posterior(self, kept: np.ndarray) -> np.ndarray:
        """(T, K) logarithms, given kept labels."""
        routes, scores = enumeration.paths(*self.unary.shape), self._scores(kept)
        total, found = logsumexp(scores), np.empty(self.unary.shape)
        with np.errstate(divide="ignore"):
            for t in range(len(found)):
                for k in range(found.shape[1]):
                    found[t, k] = logsumexp(scores[routes[:, t] == k]) - total
        return found

    def predictive(self, kept: np.ndarray) -> np.ndarray:
        """(T,) log p(label | kept labels); of unknown labels, anything."""
        return self.posterior(kept)[np.arange(len(self.labels)), self.labels]

    def score(self, path: np.ndarray) -> float:
        inside = self.moves[path[:-1], path[1:]].sum()
        return float(self.unary[np.arange(len(path)), path].sum() + inside)

    def best(self) -> float:
        return float(self._scores(np.zeros(len(self.labels), bool)).max())
