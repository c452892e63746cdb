"""Bootstrap standard errors and intervals from one fit's derivatives, by reweighting.

The weights of a draw count how often each observation (or sequence) was drawn; its parameters are
theta1 - H^-1 (g + J (w - w0)), for all draws at once. A weight multiplies what an observation adds to
the log-likelihood given those before it (`schemes.Increments`), so that the objective is linear in the
weights, and `ij` and `onestep` agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fitonce.core import memory
from fitonce.core.arguments import (
    generator,
    refusal,
    require,
    require_choice,
    require_count,
    require_level,
)
from fitonce.core.deferred import jax, jit, jnp
from fitonce.core.memory import limits_memory
from fitonce.core.numerics import in_float64
from fitonce.core.progress_lines import told_as
from fitonce.core.wording import counted
from fitonce.crossval.batches import Batches, chunk_size
from fitonce.crossval.from_zero import held_at, leave_mirrors
from fitonce.crossval.methods import METHODS, exact
from fitonce.fitting.curvature import Curvature, curvature_of
from fitonce.fitting.fit import Fit
from fitonce.fitting.footprint import bytes_of_cross, bytes_of_draws, bytes_per_refined, hold_point
from fitonce.fitting.required import require_a_fit
from fitonce.fitting.summarise import delta_method
from fitonce.objectives.base import Objective

KINDS = ("block", "iid", "structures")
_METHODS = ("ij", "newton", "exact")
_SAMPLE = 20
_ASKED = 200  # draws that are asked whether they would leave a zero
_GOOD, _FAIR = 0.1, 0.3  # of a draw's distance from the fit; the effect on a standard error is smaller


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Draws of the parameters, or of a function of them.

    Attributes:
        table: one row per quantity: `name`, `value` at the fit, `se`, the ends `low` and `high` of the
            percentile interval, and `control`, the standard error by H alone (no resampling).
        draws: (n, quantities).
        theta: (n, D) free parameters of the draws.
        level: of the interval.
        kind, block: how observations were drawn.
        check: one row per quantity, where requested: `se` of the refitted draws as approximated, their
            `se_exact` by exact refits, and the largest difference in standard errors, `largest`.
        left: how far draws end from their own optima, relative to their distance from the fit: the root
            mean square of 20 draws that were checked by a gradient; nan for exact refits.
        held: places that draws stay at to first order, such as "'level' at zero", although one of 200
            that were asked has its own optimum elsewhere.
        n_failed: draws without a usable number (no certified refit, a step uphill), which are left out.
        check_failed: refits of the check without a certificate, left out of it.
        damping: what was added to the diagonal of H.
    """

    table: pd.DataFrame
    draws: np.ndarray
    theta: np.ndarray
    level: float
    kind: str
    block: int | None
    check: pd.DataFrame | None
    left: float
    held: tuple[str, ...]
    n_failed: int
    check_failed: int
    damping: float
    fit: Fit = field(repr=False)

    def _level(self) -> str:
        """ "good", "fair" or "bad": how near draws are to their own optima."""
        if self.held:
            return "bad"
        if np.isnan(self.left):
            return "good"
        return "good" if self.left < _GOOD else "fair" if self.left < _FAIR else "bad"

    def _trust(self) -> str:
        if self.held:
            advice = "; use method='exact'" if np.isfinite(self.left) else ""  # nan: these are exact
            return (
                f"trust: bad; draws stay where the fit is ({', '.join(self.held)}), which is no optimum "
                f"of some of them: intervals of it say nothing{advice}"
            )
        if np.isnan(self.left):
            return "trust: every draw is a certified refit"
        word = self._level()
        advice = "" if word == "good" else "; use method='newton' or 'exact', or check="
        return (
            f"trust: {word}; the distance of draws from their own optima is {100 * self.left:.2g} % of "
            f"that from the fit (by a gradient at {min(_SAMPLE, len(self.draws))} of them){advice}"
        )

    def to_dataframe(self) -> pd.DataFrame:
        """The table."""
        return self.table.copy()

    def _repr_html_(self) -> str:
        from fitonce.results.notebook.fits import of_bootstrap  # only notebooks need it

        return of_bootstrap(self, self._level(), self._trust())

    def __repr__(self) -> str:
        how = f"blocks of {self.block}" if self.block else self.kind
        lines = [
            f"Bootstrap, {len(self.draws):,} draws, {how}, {100 * self.level:g} % intervals",
            self.table.to_string(index=False, float_format=lambda v: f"{v:.5g}"),
            self._trust(),
        ]
        if self.check is not None:
            failed = f" ({self.check_failed} without a certificate)" if self.check_failed else ""
            lines.append(f"check against exact refits{failed}; `largest` in standard errors")
            lines.append(self.check.to_string(index=False, float_format=lambda v: f"{v:.4g}"))
        if not self.fit.objective.traits.convex:
            lines.append("local: at the optimum of the fit; others were not looked for")
        if self.n_failed:
            lines.append(f"{counted(self.n_failed, 'draw')} without a usable number, left out")
        if self.damping:
            lines.append(f"H damped by {self.damping:g}")
        if not self.fit.ok:
            lines.append(f"FIT {self.fit.status}")
        return "\n".join(lines)


@limits_memory
@told_as("the bootstrap")
@in_float64
def bootstrap(
    fit: Fit,
    kind: str = "block",
    *,
    n: int = 1000,
    block: int | None = None,
    method: str = "ij",
    statistic: Callable[[Any], Any] | None = None,
    level: float = 0.9,
    check: int = 0,
    seed: int = 0,
    damping: float = 0.0,
    memory_limit: float | str | None = None,
) -> Bootstrap:
    """Standard errors and intervals of the parameters, or of any function of them.

    Args:
        fit: from `fo.fit`.
        kind: "block", the circular moving-block bootstrap for dependent observations, which draws the
            ends of a sequence as often as the rest; "iid", single observations; "structures", whole
            sequences.
        n: how many draws.
        block: length of a block, in steps; None: the cube root of the longest sequence, rounded up. Use
            more where dependence that the model does not explain lasts longer (a daily rhythm: a day).
        method: "ij", all draws from one fit's derivatives; "newton", a step with each draw's own
            Hessian, for blocks so long that few of them determine a parameter; "exact", refits.
        statistic: a function of the parameters (a pytree of constrained values) that returns a number or
            a one-dimensional array, written with `jax.numpy`; None: the parameters themselves.
        level: the probability of the percentile intervals.
        check: refit this many of the draws exactly, and report the differences.
        seed: of the draws.
        damping: added to the diagonal of H, for a fit at which it is not positive definite.
        memory_limit: what the call may add to the memory of this process, in bytes or as text such as
            "2GB"; None: half of this machine's memory. Draws are kept as counts, and worked on in
            pieces below it; where these take more, the call refuses. See `fo.plan`.
    """
    _refuse(fit, kind, n, block, level, check)
    curve = curvature_of(fit, fit.objective.for_resampling(kind), damping)
    require_choice("method", method, _METHODS)
    block = _block_length(fit, block) if kind == "block" else None
    rng = generator(seed)
    _hold(curve.objective, n, method)
    weights = _weights(curve.objective.base, fit, block, rng, n)
    size = chunk_size(curve.objective, n)
    batches = Batches.of(curve.objective, weights, size)
    solved = METHODS[method](curve, batches)
    if method == "exact":
        leave_mirrors(curve, batches, solved)
    ok = np.array([status.ok for status in solved.status])
    if ok.sum() < 2:
        raise ValueError(
            f"the bootstrap needs at least 2 draws with a usable number, got {ok.sum()} of {n}; the "
            f"first that failed: {solved.status[int(np.argmin(ok))]}"
        )
    weights, theta = weights[ok], solved.thetas[ok]
    names, quantities, slopes = _quantities(fit, statistic)
    draws, value = quantities(theta), quantities(fit.theta[None])[0]
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    columns = {"name": names, "value": value, "se": draws.std(0, ddof=1), "low": low, "high": high}
    control = delta_method(slopes, curve.inverse)
    table = pd.DataFrame({**columns, "control": control})
    report, failed = None, 0
    check = min(check, len(draws))
    if check:
        batches = Batches.of(curve.objective, weights[:check], min(size, check))
        report, failed = _compare(curve, batches, draws[:check], table, quantities)
    first, some = (Batches.of(curve.objective, weights[:n], size) for n in (_SAMPLE, _ASKED))
    left = np.nan if method == "exact" else _left(curve, first, theta[:_SAMPLE])
    held = held_at(curve, some, theta[:_ASKED])
    counts: dict[str, Any] = {"n_failed": len(ok) - len(draws), "check_failed": failed}
    found = {"check": report, "left": left, "held": held, "damping": damping, "fit": fit, **counts}
    return Bootstrap(table, draws, theta, level, kind, block, **found)


def _hold(objective: Objective, n: int, method: str) -> None:
    """Declare what all draws take."""
    memory.require_fits(
        "n", n, lambda count: 16 * count * len(objective.base), "the weights of all draws"
    )
    hold_point(objective)
    memory.hold(bytes_of_draws(objective, n), f"the weights of {counted(n, 'draw')}")
    memory.hold(bytes_of_cross(objective, n), f"J, {objective.space.size:,} x {len(objective.base):,}")
    if method != "ij":
        what = f"{counted(n, 'matrix', 'matrices')} of {counted(objective.space.size, 'parameter')}"
        memory.hold(n * bytes_per_refined(objective, n, method), what)


def _refuse(fit: Fit, kind: str, n: int, block: int | None, level: float, check: int) -> None:
    require_a_fit(fit)
    possible = fit.objective.traits.resampling
    if not possible:
        raise ValueError(f"bootstrap resamples steps in time or whole sequences, got {fit.model}")
    require_choice("kind", kind, KINDS)
    require(kind in possible, "kind", f"one of {possible} for {fit.model}", kind)
    if kind == "structures" and fit.objective.collection.n_sequences < 2:
        raise ValueError("kind='structures' resamples whole sequences and needs at least 2, got 1")
    if block is not None and kind != "block":
        raise ValueError(f"block is for kind='block', got kind='{kind}'")
    block = 1 if block is None else block
    for name, value, least in (("n", n, 2), ("check", check, 0), ("block", block, 1)):
        require_count(name, value, least)
    if check == 1 or check > n:
        raise refusal("check", f"0 or between 2 and the {n} draws", check)
    require_level(level)


def _block_length(fit: Fit, block: int | None) -> int:
    lengths = fit.objective.collection.lengths
    length = math.ceil(int(lengths.max()) ** (1 / 3)) if block is None else int(block)
    if 2 * length > (steps := lengths.sum()):
        raise refusal("block", f"at most half of the {steps} steps of data", length)
    return length


def _weights(
    base: np.ndarray, fit: Fit, block: int | None, rng: np.random.Generator, n: int
) -> np.ndarray:
    """(n, P) how often each observation (or sequence) was drawn, one by one or in blocks of `block`
    steps; 0 where nothing was observed. As small integers: there may be many."""
    weights, observed = np.zeros((n, len(base)), np.int16), np.flatnonzero(base)
    lengths, shares = fit.objective.collection.lengths, np.full(len(observed), 1 / len(observed))
    for draw in weights:
        if block is None:
            draw[observed] = rng.multinomial(len(observed), shares)
        else:
            draw[:] = base * _blocks_drawn(lengths, block, rng)
    return weights


def _blocks_drawn(lengths: np.ndarray, block: int, rng: np.random.Generator) -> np.ndarray:
    """(sites,) how often each site is covered by blocks whose total length is that of the data.

    A block starts at any site and wraps around within its sequence; sequences are chosen with
    probability proportional to their length over that of a block in them, so that every site is drawn
    about once on average: the last block is cut short, which only concerns long ones.
    """
    offsets, sites = np.concatenate([[0], np.cumsum(lengths)[:-1]]), int(lengths.sum())
    widths = np.minimum(block, lengths)
    shares = lengths / widths
    enough = -(-sites // int(widths.min()))
    which = rng.choice(len(lengths), enough, p=shares / shares.sum())
    before = np.cumsum(widths[which]) - widths[which]
    drawn = np.clip(sites - before, 0, widths[which])  # sites of each block; none once there are enough
    within = np.arange(sites) - np.repeat(before, drawn)
    which, starts = np.repeat(which, drawn), np.repeat(rng.integers(lengths[which]), drawn)
    places = offsets[which] + (starts + within) % lengths[which]
    return np.bincount(places, minlength=sites)


class _Quantities(NamedTuple):
    """What is drawn: Q names, their values (F, Q) at thetas (F, D), and slopes (Q, D) at the fit."""

    names: list[str]
    values: Callable[[np.ndarray], np.ndarray]
    slopes: np.ndarray


def _quantities(fit: Fit, statistic: Callable[[Any], Any] | None) -> _Quantities:
    space = fit.objective.space
    if statistic is None:
        slopes = space.named_slopes(fit.theta).toarray()
        return _Quantities(list(fit.names), space.named_values, slopes)
    require(callable(statistic), "statistic", "a function of the parameters", statistic)

    def value(theta: Any) -> Any:
        return jnp.asarray(statistic(space.to_params(theta)))

    try:
        result = jax.eval_shape(value, jax.device_put(fit.theta))
    except (TypeError, ValueError, jax.errors.JAXTypeError) as error:
        raise ValueError(
            "statistic must be written with jax.numpy and return a number or a vector, got "
            f"{type(error).__name__}: {str(error).splitlines()[0]}"
        ) from None
    if len(result.shape) > 1 or jnp.issubdtype(result.dtype, jnp.complexfloating):
        raise ValueError(f"statistic must return a number or a vector, got shape {result.shape}")
    label = getattr(statistic, "__name__", "statistic").replace("<lambda>", "statistic")
    names = [f"{label}[{i}]" for i in range(result.shape[0])] if result.shape else [label]
    vector = lambda theta: jnp.atleast_1d(value(theta))  # noqa: E731
    many = jit(lambda thetas: jax.vmap(vector)(thetas))
    here = np.asarray(many(jax.device_put(fit.theta[None])))[0]
    if not np.isfinite(here).all():
        raise ValueError(f"statistic must be finite at the fit, got {here.tolist()}")
    slopes = np.asarray(jit(lambda theta: jax.jacfwd(vector)(theta))(jax.device_put(fit.theta)))
    return _Quantities(names, lambda thetas: np.asarray(many(jax.device_put(thetas))), slopes)


def _left(curve: Curvature, batches: Batches, thetas: np.ndarray) -> float:
    """The root mean square distance of draws from their own optima, relative to that from the fit."""
    _, gradients = batches.values_and_gradients(thetas, np.arange(len(thetas)))
    rest = np.einsum("fi,ij,fj->", gradients, curve.inverse, gradients)
    moved = np.sum(curve.distances_to(thetas) ** 2)
    return float(np.sqrt(rest / moved)) if moved > 0 else np.nan


def _compare(
    curve: Curvature,
    batches: Batches,
    draws: np.ndarray,
    table: pd.DataFrame,
    quantities: Callable[[np.ndarray], np.ndarray],
) -> tuple[pd.DataFrame, int]:
    """The draws against exact refits, and how many of these failed."""
    refitted = exact(curve, batches)
    leave_mirrors(curve, batches, refitted)
    ok = np.array([status.ok for status in refitted.status])
    exact_draws = quantities(refitted.thetas)[ok]
    spreads = np.full((2, len(table)), np.nan)
    if ok.sum() > 1:
        spreads[:] = draws[ok].std(0, ddof=1), exact_draws.std(0, ddof=1)
    largest = np.abs(draws[ok] - exact_draws).max(0, initial=0.0) / table["se"]
    columns = {"name": table["name"], "se": spreads[0], "se_exact": spreads[1], "largest": largest}
    return pd.DataFrame(columns), int((~ok).sum())
