"""Maps: sites coloured by data, posterior class, held-out loss, how odd they are, or influence."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fitonce.analysis.influence import Influence
from fitonce.analysis.map_colours import draw_geography, name_largest, paint_numbers
from fitonce.analysis.map_scales import FixedScale, paint_fixed, scale_of_p, scale_of_ratios
from fitonce.core.arguments import naming, require, require_choice, require_count, require_text
from fitonce.core.deferred import nx
from fitonce.core.numerics import as_numbers
from fitonce.data.geography import Geography, aspect_of
from fitonce.data.geojson import polygons_of
from fitonce.data.graph import Graph, of_pairs
from fitonce.data.graph import graph as read_graph
from fitonce.data.maps import Map
from fitonce.fitting.fit import Fit
from fitonce.results.odd_scales import ratios_of, sides_of
from fitonce.results.plots import axes_on
from fitonce.results.result import CVResult
from fitonce.results.site_losses import beyond_chance

_MISSING, _DARKER = (0.85, 0.85, 0.85, 1.0), (0.55, 0.55, 0.55, 1.0)  # where the middle is a light grey


class _Shown(NamedTuple):
    """One value for each site (nan: none), their label, and how they are coloured."""

    values: np.ndarray
    text: str
    classes: int = 0  # how many; 0: the values are numbers
    signed: bool = False  # whether colours are centred at zero
    robust: bool = False  # whether colours end where a few extreme sites would hide the rest
    marked: int = 0  # how many of the largest are named
    size: np.ndarray | None = None  # by which they are the largest; None: the values
    scale: FixedScale | None = None  # colours that do not follow the values shown


def plot_map(
    what: Any,
    where: Any = None,
    *,
    show: str | None = None,
    key: str | None = None,
    names: Any = None,
    label: str | None = None,
    limits: tuple[float, float] | None = None,
    scale: str | None = None,
    mark: int | None = None,
    ax: Any = None,
    cmap: str | None = None,
) -> Any:
    """Colour the sites of a map. Returns the matplotlib axes.

    Args:
        what: one value for each site; a fit (show="data", or "class", the most probable class); a
            result of `cross_validate` or `loo` (show="loss", the mean held-out loss of each site,
            "control", "p", how far out its value lies of what the others lead to expect, or "ratio",
            observed / expected counts); or influence (show="displacement", "loss" or a parameter).
            Sites without a value are grey.
        where: a map (`fo.read_map`); a GeoJSON file or its content, one feature for each site;
            (sites, 2) coordinates; or what `fo.graph` reads, to draw the graph itself, with no
            geography; None: the map that the data came with, or else the fit's graph.
        show: what to show of `what`, see there.
        key: the property of a GeoJSON feature that names its site, and
        names: the names of the sites in order, for features in another order.
        label: of the colour bar; None: what is shown.
        limits: of the colours, so that a few extreme sites do not hide the rest; None: by `scale`.
        scale: "linear", all values; "robust", which ends at the 95 % quantile where more than half of
            the scale would be for the few sites above, and says so; "ranks", by the order of values.
            None: robust for losses and influence, linear for others. "p" and "ratio" have their own.
        mark: how many of the largest values to name; None: 5 of losses where sites have names. For "p"
            and "ratio", those with the smallest p.
        ax: matplotlib axes to draw on; None: a new figure.
        cmap: a matplotlib colour map; None: viridis, and distinct colours for classes.
    """
    _check_looks(limits, scale, mark, cmap)
    for name, text in (("show", show), ("key", key), ("label", label)):
        require_text(name, text, optional=True)
    shown = _read(what, show)
    if label is not None:
        shown = shown._replace(text=label)
    where = _where(what, where)
    wide = isinstance(where, Geography) and where.proportion > 1.3
    ax = axes_on(ax, *((8.0, 1.2 + 7.6 / max(where.proportion, 1.0)) if wide else (6.4, 6.0)))
    if shown.scale is not None:
        given = scale if limits is None else limits
        require(
            given is None, "limits and scale", f"None, as show={show!r} has a scale of its own", given
        )
        paint = paint_fixed(ax, shown.values, shown.scale, shown.text, cmap, below=wide)
    elif shown.classes:
        paint = _paint_classes(ax, shown, cmap)
    else:
        paint = paint_numbers(ax, shown, limits, scale, cmap, below=wide)
    paint[~np.isfinite(shown.values)] = _MISSING if shown.scale is None else _DARKER
    if isinstance(where, Geography):
        draw_geography(ax, where, paint)
        called = names if names is not None and key is None else _called(what)
        if called is not None:
            size = shown.values if shown.size is None else shown.size  # noqa: PD011 - an array
            name_largest(ax, where, size, called, shown.marked if mark is None else mark)
    else:
        _draw(ax, where, paint, key, names)
    ax.set_axis_off()
    return ax


def _check_looks(limits: Any, scale: Any, mark: Any, cmap: Any) -> None:
    from matplotlib import colormaps

    require_choice("scale", scale, ("linear", "robust", "ranks"), optional=True)
    require_count("mark", mark, 0, optional=True)
    known = isinstance(cmap, str) and cmap in colormaps
    require(cmap is None or known, "cmap", "the name of a colour map of matplotlib or None", cmap)
    if limits is not None:
        found = as_numbers(limits)
        rising = found is not None and found.shape == (2,) and found[0] < found[1]
        require(rising, "limits", "two rising numbers or None", limits)


def _where(what: Any, where: Any) -> Any:
    """Where to draw: as given, or else the map of the data, or the fit's graph."""
    if isinstance(where, Map):
        where = where.geography if where.geography is not None else where.graph
    if where is not None:
        return where
    fit = what if isinstance(what, Fit) else getattr(what, "fit", None)
    if fit is None or fit.edges is None:
        raise ValueError("where must be a map, a GeoJSON file, coordinates or a graph, got none")
    geography = None if fit.places is None else fit.places.geography
    return geography or of_pairs(fit.edges, fit.n_sites)


def _called(what: Any) -> tuple[str, ...] | None:
    """The names of the sites."""
    places = getattr(what if isinstance(what, Fit) else getattr(what, "fit", None), "places", None)
    return None if places is None else places.sites


def _paint_classes(ax: Any, shown: _Shown, cmap: str | None) -> np.ndarray:
    """(V, 4) colours, and a legend."""
    from matplotlib import colormaps

    colours = colormaps[cmap or ("tab10" if shown.classes <= 10 else "tab20")]
    for number in range(shown.classes):
        ax.plot([], [], "s", color=colours(number), label=f"class {number}")
    place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    ax.legend(frameon=False, fontsize=8, title=shown.text, **place)
    return np.array([colours(int(value)) for value in np.nan_to_num(shown.values)])


def _read(what: Any, show: str | None) -> _Shown:
    if isinstance(what, Fit):
        return _of_fit(what, show)
    if isinstance(what, CVResult):
        return _of_result(what, show or "loss")
    if isinstance(what, Influence):
        return _of_influence(what, show or "displacement")
    if show is not None:
        raise ValueError(f"show is for a fit, a result or an influence, got {type(what).__name__}")
    try:
        values = np.asarray(what, float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"what to show must be numbers, got {type(what).__name__}") from None
    if values.ndim != 1:
        raise ValueError(f"what to show must have one value for each site, got shape {values.shape}")
    return _Shown(values, getattr(what, "name", None) or "value")


def _of_fit(fit: Fit, show: str | None) -> _Shown:
    if show in (None, "class"):
        posterior = fit.objective.state_probabilities(fit.theta)
        return _Shown(posterior.argmax(1).astype(float), "most probable", posterior.shape[1])
    require(isinstance(show, str) and show == "data", "show", "'data' or 'class' for a fit", show)
    sites = fit.objective.collection
    name = next(iter(sites.channel_names), "x0")
    return _Shown(sites.shown_values, "data" if name == "x0" else name)


def _of_result(result: CVResult, show: str) -> _Shown:
    known = show in ("loss", "control", "p", "ratio")
    require(known, "show", "'loss', 'control', 'p' or 'ratio' for a result", show)
    means = result.site_losses()
    if show in ("p", "ratio"):
        return _odd(result, show, means)
    values = np.full(result.fit.n_sites, np.nan)
    values[means["site"].to_numpy()] = means[show].to_numpy()
    text = "held-out loss" + (", control" if show == "control" else "")
    return _Shown(values, text, robust=True, marked=5)


def _odd(result: CVResult, show: str, means: pd.DataFrame) -> _Shown:
    """How far values are from what was expected of them; the smallest p are named."""
    sites, model = result.fit.n_sites, result.summary.model
    sides, ratios = sides_of(means, sites), ratios_of(means, sites)
    if sides is None or (show == "ratio" and ratios is None):
        kind = "counts or numbers" if show == "p" else "counts"
        raise ValueError(f"show={show!r} is for maps of {kind}, scored site by site, got {model}")
    size = np.abs(sides.values)
    if show == "ratio" and ratios is not None:
        scale = scale_of_ratios(ratios.end)
        return _Shown(ratios.values, "observed / expected", marked=5, size=size, scale=scale)
    text = (
        "p of each value, if the model is right, and on which side it is\n"
        f"full colour: {beyond_chance(sides.beyond, sides.known)}"
    )
    return _Shown(sides.values, text, marked=5, size=size, scale=scale_of_p(sides.level))


def _of_influence(influence: Influence, show: str) -> _Shown:
    values = np.full(len(influence.fit.objective.base), np.nan)
    values[influence.table["site"].to_numpy()] = influence.column(show).to_numpy()
    if show in ("displacement", "loss"):
        return _Shown(values, show, robust=True, marked=5)
    signed = bool(np.nanmin(values) < 0)
    return _Shown(values, f"move of {show}, standard errors", signed=signed)


def _draw(ax: Any, where: Any, paint: np.ndarray, key: str | None, names: Any) -> None:
    if isinstance(where, (dict, str, os.PathLike)):
        with naming("where"):
            polygons = polygons_of(where, len(paint), key, names)
        _draw_polygons(ax, polygons, paint)
        return
    if _is_coordinates(where, len(paint)):
        points, edges = np.asarray(where, float), np.zeros((0, 2), int)
    else:
        with naming("where"):
            graph = read_graph(where)
        points, edges = _layout(graph), graph.edges
    if len(points) != len(paint):
        raise ValueError(
            f"where: the map has {len(points):,} sites, but {len(paint):,} values are to be shown"
        )
    ax.plot(*points[edges].transpose(2, 1, 0), color="#bbbbbb", lw=0.6, zorder=1)
    size = np.clip(6000.0 / len(points), 8.0, 160.0)
    ax.scatter(*points.T, c=paint, s=size, edgecolors="white", linewidths=0.4, zorder=2)
    ax.set_aspect(_aspect(points))


def _is_coordinates(where: Any, sites: int) -> bool:
    """Whether `where` holds two numbers for each site that cannot be a list of edges."""
    if isinstance(where, (Graph, nx.Graph)):
        return False
    values = as_numbers(where)
    if values is None or values.shape != (sites, 2):
        return False
    whole = (values == np.floor(values)).all() and values.min() >= 0 and values.max() < sites
    return not whole or bool((values[:, 0] == values[:, 1]).any())


def _layout(graph: Graph) -> np.ndarray:
    """(V, 2) coordinates that place neighbours near each other."""
    drawn: nx.Graph = nx.empty_graph(graph.n_sites)
    drawn.add_edges_from(graph.edges.tolist())
    places = nx.kamada_kawai_layout(drawn) if graph.n_sites <= 500 else nx.spring_layout(drawn, seed=0)
    return np.array([places[site] for site in range(graph.n_sites)])


def _draw_polygons(ax: Any, polygons: list[list[np.ndarray]], paint: np.ndarray) -> None:
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path as Outline

    paths = [Outline.make_compound_path(*(Outline(r, closed=True) for r in rings)) for rings in polygons]
    ax.add_collection(PathCollection(paths, facecolors=paint, edgecolors="white", linewidths=0.3))
    ax.autoscale_view()
    ax.set_aspect(_aspect(np.concatenate([ring for rings in polygons for ring in rings])))


def _aspect(points: np.ndarray) -> float:
    """The aspect ratio; 1 for computed coordinates, which are not geographic ones."""
    return 1.0 if np.abs(points).max() <= 1.0 + 1e-9 else aspect_of(points)
