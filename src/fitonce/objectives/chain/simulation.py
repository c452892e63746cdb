"""Random data from a fitted HMM: samples, data sets like that of the fit, and the future."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fitonce.core.parameters import Params
from fitonce.data.sequences import Sequences
from fitonce.models.hmm import HMM
from fitonce.objectives.simulation import Drawn, Simulator
from fitonce.results.forecast import Forecast


class Ahead(NamedTuple):
    """What steps depend on: covariates of emissions (..., h, Q), and of transitions into them."""

    rows: np.ndarray
    links: np.ndarray


@dataclass(frozen=True, eq=False)
class FittedHMM(Simulator):
    """An HMM with the values of its parameters, the data, and probabilities (sites, E) of its states at
    their steps given all data; where states have durations, of their stages."""

    model: HMM
    params: Params
    data: Sequences
    stages: np.ndarray

    def drawn(self, n: int, sequence: int, seed: int, covariates: Any) -> Drawn:
        ahead = self._beyond(covariates, n)
        past = self._first_steps(sequence)
        begin = np.repeat(ahead.links[:1], 1 + len(past), 0)
        drawn = self._paths(1, self._states_after(begin), ahead, past, seed)
        return Drawn(*(part[0] for part in drawn))

    def simulated(self, seed: int) -> Sequences:
        data, lags = self.data, self.model.emission.lags
        values, known = np.zeros_like(data.values), self._known_to(data)
        for number, length in enumerate(data.lengths):
            past = self._first_steps(number)[:length]
            begin = min(lags, length)
            beside = Ahead(*(part[number, begin:length] for part in known))
            first = self._states_after(known.links[number, : begin + 1])
            drawn = self._paths(1, first, beside, past, (seed, number))
            values[number, :length] = np.concatenate([past, drawn[1][0]])
        known_values = self._known
        return replace(
            data, values=np.where(known_values, values, 0.0), observed=known_values, conditioned=None
        )

    def ahead(self, steps: int, sequence: int, n: int, seed: int, covariates: Any) -> Forecast:
        data = self.data
        end = int(data.lengths[sequence])
        ahead = self._beyond(covariates, steps, sequence)
        shares = np.empty((steps, self.model.n_hidden))
        now = self.stages[data.offsets[sequence] + end - 1]
        for step, moves in enumerate(self.model.chain.moves_at(self.params, ahead.links)):
            now = shares[step] = now @ moves
        drawn = self._paths(n, shares[0], ahead, self._last_steps(sequence), seed)
        moments = self._moments(shares, ahead)
        shares = self.model.by_states(shares)
        observed = np.where(self._known, data.values, np.nan)[sequence, :end]
        circular = self.model.emission.circular(len(data.channels))
        index, past = self.indices_ahead(sequence, steps)
        return Forecast(
            drawn[1], drawn[0], shares, data.channels, observed, circular, index, past, None, moments
        )

    def _moments(self, shares: np.ndarray, ahead: Ahead) -> np.ndarray | None:
        """(2, h, C) means and standard deviations of steps with these probabilities of their states
        (h, E): of mixtures of what the states emit; None where these depend on earlier steps, or have no
        closed forms."""
        emission, steps = self.model.emission, len(shares)
        if emission.lags:
            return None
        shares = shares.reshape(steps, -1, self.model.stages_alike).sum(-1)
        states = np.tile(np.arange(shares.shape[1]), steps)
        found = emission.moments(self.params, states, np.repeat(ahead.rows, shares.shape[1], 0))
        if found is None:
            return None
        means, variances = (np.asarray(part).reshape(*shares.shape, -1) for part in found)
        mean = np.einsum("hk,hkc->hc", shares, means)
        variance = np.einsum("hk,hkc->hc", shares, variances + (means - mean[:, None]) ** 2)
        return np.stack([mean, np.sqrt(variance)])

    @property
    def bytes_per_step(self) -> int:
        states, channels = self.model.n_hidden, len(self.data.channels)
        return 8 * (states * states + 4 * channels + 4)

    @property
    def reads(self) -> tuple[str, ...]:
        return self.model.reads

    @property
    def _known(self) -> np.ndarray:
        """(N, T, C) which values are known, also those that are only conditioned on."""
        data = self.data
        return data.observed if data.conditioned is None else data.observed | data.conditioned

    def _first_steps(self, sequence: int) -> np.ndarray:
        """(L, C) those that an autoregression begins with."""
        lags, values = self.model.emission.lags, self.data.values
        if not self._known[sequence, :lags].all():
            raise ValueError(
                f"an autoregression starts from the first {lags} steps of sequence {sequence}, some of "
                "which are missing"
            )
        return values[sequence, :lags]

    def _last_steps(self, sequence: int) -> np.ndarray:
        """(L, C) those that an autoregression depends on."""
        lags, end = self.model.emission.lags, self.data.lengths[sequence]
        if not self._known[sequence, end - lags : end].all():
            raise ValueError(
                f"a forecast needs the last {lags} steps of the sequence, some of which are missing"
            )
        values: np.ndarray = self.data.values
        return values[sequence, end - lags : end]

    def _known_to(self, data: Sequences) -> Ahead:
        """What emissions (N, T, Q) and transitions (N, T, Q') depend on, besides earlier steps."""
        emission, chain, grid = self.model.emission, self.model.chain, data.valid.shape
        known = None if emission.lags else emission.covariates(data)
        return Ahead(
            np.zeros((*grid, 0)) if known is None else known,
            data.covariates_of(chain.regressors) if chain.regressors else np.zeros((*grid, 0)),
        )

    def _beyond(self, given: Any, steps: int, sequence: int | None = None) -> Ahead:
        """The same of the steps (h,) after a sequence; None: of its first steps."""
        data = self.data
        start = 0 if sequence is None else int(data.lengths[sequence])
        total = start + steps
        known, names = self.covariates_ahead(given, steps, sequence)
        every = np.ones((1, total, len(data.channels)))
        longer = Sequences(every, every > 0, np.array([total]), data.channels)
        if names:
            whole = np.concatenate([np.repeat(known[:1], start, 0), known])[None]
            longer = replace(longer, covariates=whole, covariate_names=names)
        return Ahead(*(part[0, start:] for part in self._known_to(longer)))

    def _states_after(self, links: np.ndarray) -> np.ndarray:
        """Probabilities of the last of some steps' states, the first of which begins a sequence."""
        now = self.model.chain.first(self.params, links[0])
        for moves in self.model.chain.moves_at(self.params, links[1:]):
            now = now @ moves
        return now

    def _paths(self, count: int, firsts: np.ndarray, ahead: Ahead, past: np.ndarray, seed: Any) -> Drawn:
        """So many random paths, given probabilities of the first state (E,), what the steps depend on
        and, if observations depend on those before them, the steps before the first (L, C). Of several
        paths the first steps are the same, however many there are."""
        rng, emission, steps = np.random.default_rng(seed), self.model.emission, len(ahead.links)
        moves, known = self.model.chain.moves_at(self.params, ahead.links), ahead.rows
        hidden = np.empty((count, steps), int)
        probabilities = np.broadcast_to(firsts, (count, len(firsts)))
        for step in range(steps):
            below = np.cumsum(probabilities, -1)[:, :-1]
            hidden[:, step] = (rng.random(count)[:, None] >= below).sum(-1)
            if step + 1 < steps:
                probabilities = moves[step + 1][hidden[:, step]]
        states, emitting = hidden // self.model.chain.n_stages, hidden // self.model.stages_alike
        if not emission.lags and count == 1:
            every = np.broadcast_to(known, (count, *known.shape)).reshape(count * steps, -1)
            values = emission.draw(self.params, emitting.ravel(), every, rng)
            return Drawn(states, values.reshape(count, steps, -1))
        if count > 1:  # what states draw depends on the number of steps
            rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0])
        if not emission.lags:
            beside = np.repeat(known[:, None], count, 1)
            each = [emission.draw(self.params, emitting[:, k], beside[k], rng) for k in range(steps)]
            return Drawn(states, np.stack(each, 1))
        recent = np.repeat(past[None, ::-1], count, 0)  # the latest first
        values = np.empty((count, steps, past.shape[1]))
        for step in range(steps):
            lagged = recent.reshape(count, -1)
            values[:, step] = emission.draw(self.params, emitting[:, step], lagged, rng)
            recent = np.concatenate([values[:, step, None], recent[:, :-1]], 1)
        return Drawn(states, values)
