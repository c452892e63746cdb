"""Tables and figures of the page for Philadelphia, from what was measured."""

from __future__ import annotations

from typing import Any

import numpy as np

import fitonce as fo
from reproduce import draw
from reproduce.record import Record

Found = dict[tuple[str, float, str], dict[str, fo.CVResult]]  # by kind of crime, coupling, style
COMPARED = ("none", "ij", "onestep", "auto")
TIMED = ("none", "ij", "onestep", "loo", "auto", "exact")
PAPERS_STYLE = "B"
DIFFERS = [
    "Data: the paper does not say which crimes and which year it counts; ours are of 2018, violent ones "
    "and all.",
    "Definition: the paper does not give its four couplings. Ours are per edge of the graph; its double "
    "sum counts every edge twice, so that its beta is half of ours.",
    "Definition: the paper leaves out in style B (observation and latent state); style A, below it, "
    "keeps the latent state. Losses are those of the paper in both.",
    "Definition: the paper refits by expectation maximisation; refits here are certified minima.",
    "Machine: the paper gives its times in a figure only, without numbers.",
]


def tell(record: Record, found: Found) -> None:
    """Errors against certified refits, and times."""
    columns = ["crimes", "style", "beta an edge"]
    errors = record.table(
        "Mean (largest) absolute error of a left-out tract's loss against its certified refit, in nats",
        [*columns, *COMPARED, "exact loss", "certified"],
    )
    for (kind, beta, style), results in _ordered(found):
        exact = results["exact"]
        sound = int(exact.folds["ok"].sum())
        cells = [_error(results[name], exact) for name in COMPARED]
        errors.add(
            kind, style, f"{beta:g}", *cells, f"{exact.estimate:.3f}", f"{sound} of {len(exact.folds)}"
        )
    times = record.table(
        "Seconds for all folds with their losses, from a fit at hand (none, ij, onestep without checks; "
        "auto and exact with them; loo keeps latent states in both styles)",
        [*columns, *TIMED],
    )
    for (kind, beta, style), results in _ordered(found):
        times.add(kind, style, f"{beta:g}", *(f"{results[name].seconds:.1f}" for name in TIMED))
    record.differs += DIFFERS


def draw_all(record: Record, found: Found, data: fo.datasets.MapData) -> None:
    """The paper's three parts: the data, the times, and a panel for each coupling."""
    kinds = list(dict.fromkeys(kind for kind, _, _ in found))
    record.figure(
        _map(data, kinds[0]),
        "philadelphia-map.png",
        f"The data, and what one fit says: {kinds[0]} crimes.",
    )
    record.figure(
        _times(found, kinds[0]), "philadelphia-times.png",
        "Seconds for all folds against the coupling, left-out tracts with their latent states (style "
        "B).",
    )  # fmt: skip
    for kind in kinds:
        record.figure(
            _panels(found, kind),
            f"philadelphia-{kind}.png",
            f"Each dot is a tract left out of the {kind} crimes: its loss after an exact refit (across) "
            "and approximated (up); style B above, A below.",
        )


def _ordered(found: Found) -> list[tuple[tuple[str, float, str], dict[str, fo.CVResult]]]:
    """The paper's style first."""
    kinds = list(dict.fromkeys(kind for kind, _, _ in found))
    return sorted(
        found.items(), key=lambda item: (kinds.index(item[0][0]), item[0][2] != PAPERS_STYLE, item[0][1])
    )


def _error(cv: fo.CVResult, exact: fo.CVResult) -> str:
    off = np.abs(cv.folds["loss"].to_numpy() - exact.folds["loss"].to_numpy())
    return f"{np.nanmean(off):.1e} ({np.nanmax(off):.1e})"


def _map(data: fo.datasets.MapData, kind: str) -> Any:
    fit = fo.fit(fo.models.PottsMixture(data.graph, beta=2.0), data.table[kind])
    figure, axes = draw.panels(1, 3, 4.2, 3.9)
    fo.plot_map(fit, data.polygons, show="data", label=f"{kind} crimes, 2018", ax=axes[0, 0])
    fo.plot_map(fit, data.polygons, show="class", ax=axes[0, 1])
    fo.plot_map(fo.loo(fit), data.polygons, label="held-out loss", ax=axes[0, 2])
    for axis, title in zip(axes.flat, ("data", "class, beta 2 an edge", "leave-one-out"), strict=True):
        axis.set_title(title, fontsize=9)
    return figure


def _times(found: Found, kind: str) -> Any:
    figure, axes = draw.panels(1, 1, 5.0, 3.2)
    axis = axes[0, 0]
    betas = [beta for name, beta, style in found if name == kind and style == PAPERS_STYLE]
    for method in ("none", "ij", "auto", "exact"):
        seconds = [found[kind, beta, PAPERS_STYLE][method].seconds for beta in betas]
        axis.plot([f"{beta:g}" for beta in betas], seconds, "o-", ms=4, label=draw.label(method))
    axis.set_yscale("log")
    axis.set_xlabel("beta an edge", fontsize=8)
    axis.set_ylabel("seconds, all folds", fontsize=8)
    axis.legend(fontsize=8)
    return figure


def _panels(found: Found, kind: str) -> Any:
    betas = list(dict.fromkeys(beta for name, beta, _ in found if name == kind))
    figure, axes = draw.panels(2, len(betas), 2.6, 2.6)
    for row, style in zip(axes, (PAPERS_STYLE, "A"), strict=True):
        for axis, beta in zip(row, betas, strict=True):
            results = found[kind, beta, style]
            losses = {m: results[m].folds["loss"].to_numpy() for m in ("none", "ij")}
            title = f"style {style}, beta {beta:g} an edge"
            draw.scatter(axis, results["exact"].folds["loss"].to_numpy(), losses, title)
    draw.name_axes(figure, axes, "loss, exact refit", "loss, approximated")
    return figure
