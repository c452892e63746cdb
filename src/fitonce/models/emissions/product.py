"""A product of emissions: channels of different kinds, independent given the state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fitonce.core.arguments import naming, require
from fitonce.core.constraints import Constraint
from fitonce.core.deferred import jnp
from fitonce.core.numerics import Array
from fitonce.core.parameters import Params
from fitonce.data.sequences import Sequences
from fitonce.models.emissions.base import Emission, EmissionTraits, Rows
from fitonce.models.emissions.by_name import read_emission
from fitonce.models.emissions.closed_forms import ClosedForms, Observations
from fitonce.models.emissions.closed_product import ClosedProduct, Part


class _Piece(NamedTuple):
    """An emission of some of the channels."""

    label: str
    channels: tuple[str, ...]
    emission: Emission
    columns: slice
    known: slice  # of the covariates

    def of(self, params: Any) -> dict[str, Any]:
        """Its own parameters, by their plain names."""
        start = f"{self.label}."
        return {name[len(start) :]: value for name, value in params.items() if name.startswith(start)}

    def named(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {f"{self.label}.{name}": value for name, value in params.items()}

    def rows(self, rows: Rows) -> Rows:
        observed = None if rows.observed is None else rows.observed[:, self.columns]
        return replace(
            rows,
            x=rows.x[:, self.columns],
            observed=observed,
            covariates=rows.covariates[:, self.known],
            constant=None,
        )

    def data(self, data: Sequences) -> Sequences:
        part = (slice(None), slice(None), self.columns)
        return replace(
            data,
            values=data.values[part],
            observed=data.observed[part],
            channels=self.channels,
            conditioned=None,
        )


@dataclass(frozen=True)
class Product(Emission):
    """Channels of different kinds, such as counts and angles.

    Parameters are called as those of the parts, after the channels: "steps.mean", "turns.concentration".

    Args:
        parts: a dict of names of channels (one, or a tuple of several) and emissions, or their names;
            all channels of the data must be there.
    """

    parts: Any

    def __post_init__(self) -> None:
        if isinstance(self.parts, tuple):  # made already
            return
        require(
            isinstance(self.parts, Mapping) and self.parts,
            "parts",
            "a dict of names of channels and emissions",
            self.parts,
        )
        made = []
        for channels, emission in self.parts.items():
            names = channels if isinstance(channels, tuple) else (channels,)
            # columns of a table may be numbers; channels are text
            made.append((tuple(map(str, names)), read_emission(emission)))
        labels = ["+".join(names) for names, _ in made]
        for label in labels:
            for other in labels:
                if other.startswith(f"{label}."):
                    raise ValueError(
                        f"'{other}' begins with the name of another part, '{label}'; rename the channel"
                    )
        flat = [name for names, _ in made for name in names]
        if len(set(flat)) < len(flat):
            raise ValueError(f"a channel can be in one part only, got {flat}")
        for _, emission in made:
            if emission.lags or emission.traits.along_time or emission.traits.deduplicate:
                raise ValueError(f"a {emission.name} emission cannot be part of a product")
        object.__setattr__(self, "parts", tuple(made))

    @property
    def name(self) -> str:
        return " x ".join(piece.emission.name for piece in self._pieces())

    @property
    def traits(self) -> EmissionTraits:
        every = [piece.emission.traits for piece in self._pieces()]
        return EmissionTraits(
            m_step=all(traits.m_step for traits in every),
            em_starts=all(traits.em_starts for traits in every),
        )

    @property
    def is_supported(self) -> bool:
        return any(piece.emission.is_supported for piece in self._pieces())

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(name for piece in self._pieces() for name in piece.emission.reads)

    @property
    def labelled(self) -> tuple[tuple[str, Emission], ...]:
        """The parts, by what their parameters' names begin with."""
        return tuple((piece.label, piece.emission) for piece in self._pieces())

    def _pieces(self) -> Iterator[_Piece]:
        column = known = 0
        for channels, emission in self.parts:
            width, read = len(channels), len(emission.reads)
            columns, of_known = slice(column, column + width), slice(known, known + read)
            yield _Piece("+".join(channels), channels, emission, columns, of_known)
            column, known = column + width, known + read

    def circular(self, channels: int) -> tuple[bool, ...]:
        parts = (piece.emission.circular(len(piece.channels)) for piece in self._pieces())
        return tuple(angle for part in parts for angle in part)

    def modelled(self, data: Sequences) -> Sequences:
        """With the channels in the order of the parts."""
        wanted = [name for channels, _ in self.parts for name in channels]
        if sorted(wanted) != sorted(data.channels):
            raise ValueError(
                f"the parts of the product must be the channels of the data, {list(data.channels)}, "
                f"got {wanted}"
            )
        return data.in_order([data.channels.index(name) for name in wanted])

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        for piece in self._pieces():
            part = piece.data(data)
            if part.observed.any():
                with naming(piece.label):  # of its channels
                    piece.emission.check(part)

    def check_to_fit(self, data: Sequences) -> None:
        for piece in self._pieces():
            with naming(piece.label):
                piece.emission.check_to_fit(piece.data(data))

    def covariates(self, data: Sequences) -> np.ndarray | None:
        found = [piece.emission.covariates(piece.data(data)) for piece in self._pieces()]
        for piece, part in zip(self._pieces(), found, strict=True):
            if part is not None and part.shape[-1] != len(piece.emission.reads):
                raise ValueError(
                    f"a {piece.emission.name} emission in a product must name its covariates in `reads`"
                )
        known = [part for part in found if part is not None]
        return np.concatenate(known, -1) if known else None

    def constant(self, x: np.ndarray, exposure: np.ndarray | None) -> np.ndarray:
        found = np.zeros_like(x)
        for piece in self._pieces():
            constant = piece.emission.constant(x[:, piece.columns], None)
            if constant is not None:
                found[:, piece.columns] = constant
        return found

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        found: dict[str, Constraint] = {}
        for piece in self._pieces():
            found |= piece.named(piece.emission.parameters(n_states, piece.rows(rows)))
        return found

    def features(self, rows: Rows) -> np.ndarray:
        return np.concatenate([p.emission.features(p.rows(rows)) for p in self._pieces()], 1)

    def start(self, n_states: int, rows: Rows, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {}
        for piece in self._pieces():
            found |= piece.named(piece.emission.start(n_states, piece.rows(rows), rng))
        return found

    def log_prior(self, params: Params, rows: Rows) -> Array:
        parts = (p.emission.log_prior(p.of(params), p.rows(rows)) for p in self._pieces())
        return sum(parts, jnp.zeros(()))

    def log_density(self, params: Params, rows: Rows) -> Array:
        parts = (p.emission.log_density(p.of(params), p.rows(rows)) for p in self._pieces())
        total = sum(parts, jnp.zeros(()))
        return total if rows.constant is None else total + rows.constant[:, None]

    def maximise(self, params: Params, shares: np.ndarray, rows: Rows) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {}
        for piece in self._pieces():
            own = piece.emission.maximise(piece.of(params), shares, piece.rows(rows))
            found |= piece.named(own)
        return found

    def draw(
        self, params: Params, states: np.ndarray, known: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        drawn = [
            piece.emission.draw(piece.of(params), states, known[:, piece.known], rng)
            for piece in self._pieces()
        ]
        return np.concatenate(drawn, 1)

    def moments(
        self, params: Params, states: np.ndarray, known: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = np.full((2, len(states), sum(len(names) for names, _ in self.parts)), np.nan)
        for piece in self._pieces():
            found = piece.emission.moments(piece.of(params), states, known[:, piece.known])
            if found is not None:
                mean[:, piece.columns], variance[:, piece.columns] = found
        return mean, variance

    def closed_forms(self, rows: Observations) -> ClosedForms | None:
        parts = []
        for piece in sorted(self._pieces(), key=lambda piece: f"{piece.label}."):
            part = Part(f"{piece.label}.", piece.columns, piece.known)
            forms = piece.emission.closed_forms(part.rows(rows))
            if forms is None:
                return None
            parts.append((part, forms))
        return ClosedProduct(tuple(parts))
