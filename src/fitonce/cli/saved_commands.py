"""The command fit, and what is done with the file that it saves: decode, forecast and sample."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from fitonce.analysis.maps import plot_map
from fitonce.cli import options as o
from fitonce.cli import outputs
from fitonce.cli.display import show_table, show_written
from fitonce.cli.errors import complain
from fitonce.cli.files import Files
from fitonce.cli.request import Request, listed
from fitonce.cli.saved_fits import opened
from fitonce.cli.steps import fitted
from fitonce.core.writing import write_figure
from fitonce.data.alignment import with_dates
from fitonce.data.covariates import with_truths
from fitonce.data.indices import dated, indices_of
from fitonce.data.labelled import UNKNOWN
from fitonce.data.places import sequence_words, time_names
from fitonce.data.reading import Columns
from fitonce.data.sequences import Sequences
from fitonce.data.table_files import read_table
from fitonce.fitting.fit import Fit
from fitonce.fitting.summarise import free_names
from fitonce.models.prior_words import priors_of
from fitonce.objectives.abilities import HasContinuousStates, HasLabels
from fitonce.objectives.families import family_of
from fitonce.results.forecast import Forecast

_SHOWN = 20  # rows
SavedFit = Annotated[Path, typer.Argument(help="A fit, saved by `fitonce fit`.", show_default=False)]
Seed = Annotated[int, o.out("Seed of the draws", min=0)]
Known = Annotated[Path | None, o.data("Table of the covariates of these steps, if the model has some")]
CsvOption = Annotated[bool, o.out("Print only CSV", "--csv")]
TableOption = Annotated[Path | None, o.out("Write the table (CSV, JSON)", "--save", "-o")]


def run_fit(request: Request, order_by: str | None, table: Path | None) -> None:
    """Fit a model to the data in a file. --save writes the fit, which decode, forecast and sample read,
    and fo.load in Python."""
    outputs.check_outputs([request.save, table], request.plot, request.force, (request.file,))
    loaded, model = request.loaded()
    geography = None if loaded.data.names is None else loaded.data.names.geography
    if request.plot is not None and not family_of(model).pictured(model) and geography is None:
        raise ValueError(
            "--plot draws transitions of an HMM, parts of a time series or classes of a map, got "
            f"--model {request.model}"
        )
    fit = fitted(request, model, loaded.data, order_by=order_by)
    if not fit.ok:
        complain(f"the fit is not a certified minimum: {fit.status}")
    if not request.json:  # numbers first
        short = f"{fit.log_likelihood:.6g} ({fit.n_parameters} parameters; {fit.status.outcome.value})"
        print(short if request.quiet else f"\n{fit}")
    files, force, save, picture = Files(), request.force, request.save, request.plot
    about = request.about(loaded.notes)
    parameters = fit.to_dataframe()
    if save is not None:
        files.add(lambda: fit.save(save, force=force, about=about))
    if table is not None:
        files.add(lambda: outputs.write_table(parameters, table, force))
    if picture is not None:
        drawn = lambda: _figure(fit, geography is not None)  # noqa: E731
        files.add(lambda: write_figure(picture, drawn(), force=force))
    if request.json:
        document = {
            "model": str(fit.model),
            "ok": bool(fit.ok),
            "status": str(fit.status),
            "objective": fit.value,
            "log_likelihood": fit.log_likelihood,
            "parameters": outputs.table_rows(parameters.set_index("name")),
            "priors": priors_of(fit.model, free_names(fit)),
            "wrote": files.wrote,
        }
        outputs.print_json(outputs.plain(document))
    else:
        show_written(files.wrote, request.quiet)
    files.finish(lambda path: fit.save(path, about=about), "`fitonce cv KEPT` and fo.load read it")


def _figure(fit: Fit, on_map: bool) -> Any:
    """Of what a fit found: classes of a map, parts of a time series, or transitions."""
    if on_map:
        return plot_map(fit, show="class").figure
    if isinstance(fit.objective, HasContinuousStates):
        return (fit.components() if fit.objective.has_components() else fit.smoothed()).plot()
    return fit.plot_transitions().figure


def _opened(
    file: Path, outs: list[Path | None], force: bool, both: bool, plot: Path | None = None
) -> Fit:
    """A saved fit, once it is known that what is made of it can be written."""
    outputs.check_outputs(outs, plot, force, (file,))
    if both:
        raise ValueError("--json and --csv are two ways to print one table: give one of them")
    return opened(file)


def decode(
    file: SavedFit,
    data: Annotated[
        Path | None, typer.Argument(help="Other data to decode; default: those of the fit.")
    ] = None,
    columns: Annotated[
        str | None, o.data("Columns under other names, in the fit's order; default: its names")
    ] = None,
    time: Annotated[str | None, o.data("Column of times")] = None,
    group: Annotated[str | None, o.data("Column that identifies sequences")] = None,
    missing: Annotated[float | None, o.data("Number that codes missing, such as -1")] = None,
    save: TableOption = None,
    force: o.ForceOption = False,
    json: o.JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Decode the most probable hidden states or tags of every step, from a saved fit. Jointly along
    sequences, site by site on a graph; of a time series, its parts or states given all data."""
    fit = _opened(file, [save], force, json and csv)
    other = None
    if data is not None:
        other = _other_data(fit, data, listed(columns), Columns(None, time, group, missing))
    elif any(given is not None for given in (columns, time, group, missing)):
        raise ValueError("--columns, --time, --group and --missing are for other data; name their file")
    _finish(_decoded(fit, other), save, force, json, csv)


def _other_data(fit: Fit, path: Path, names: tuple[str, ...] | None, columns: Columns) -> Any:
    family, known = family_of(fit.model), fit.objective.collection
    if not isinstance(known, Sequences) or not fit.objective.traits.sequences:
        if isinstance(fit.objective, HasLabels):
            # Tags of the file are not used, and may be some of the fit's, or others.
            read = family.load(path, replace(columns, modelled=names), {"like": fit.data}).data
            return replace(read, tags=fit.data.tags, labels=np.full(read.n_sites, UNKNOWN))
        raise ValueError(f"{fit.model} can only be decoded on the data of its fit, got {path.name}")
    roles = Columns(
        names or known.channels, columns.time, columns.group, columns.missing,
        covariates=known.covariate_names,
    )  # fmt: skip
    loaded = family.load(path, roles, {})
    if columns.group is None and known.n_sequences > 1 and loaded.data.n_sequences == 1:
        complain(
            f"{path.name} is read as one sequence, where the fit has {known.n_sequences}; --group names "
            "the column that tells sequences apart"
        )
    if names is None or set(names) == set(known.channels) or len(names) != len(known.channels):
        return loaded.data  # which the fit's names put in its order
    return replace(loaded.data, channels=known.channels)  # as --columns says which is which


def _decoded(fit: Fit, data: Any) -> pd.DataFrame:
    """One row per site: where it is, its state or tag, and the probability of that; of a time series its
    parts, or states, and their standard deviations."""
    if isinstance(fit.objective, HasContinuousStates):
        series: Any = fit.objective.for_prediction(data)
        found = series.components if series.has_components() else series.smoothed
        parts = found(fit.theta).to_dataframe()
        return _places(series.collection).join(parts.reset_index(drop=True))
    if not fit.objective.traits.hidden_states and not isinstance(fit.objective, HasLabels):
        raise ValueError(f"decode needs a model with states or tags, got {fit.model}")
    objective = fit.objective.for_prediction(data)
    shares, sites = objective.state_probabilities(fit.theta), objective.collection
    if objective.traits.site == "site":
        states = shares.argmax(1)
    else:
        states = np.concatenate([np.asarray(path) for path in objective.decode(fit.theta)])
    rows = _places(sites)
    if isinstance(fit.objective, HasLabels):
        tags = list(fit.data.tags)
        rows["word"] = [w for n in range(sites.n_sequences) for w in sites.words_of(n)]  # type: ignore[attr-defined]
        number = np.array([tags.index(str(tag)) for tag in states])
        rows["tag"] = states
        rows["probability"] = shares[np.arange(len(shares)), number]
        return rows
    return rows.assign(state=states, probability=shares[np.arange(len(shares)), states])


def _places(data: Any) -> pd.DataFrame:
    """Columns that say which step a row is: the user's names of sequences and steps, or numbers."""
    sites, names, indices = data.sites, data.names, indices_of(data)
    found = pd.DataFrame(index=sites.index)
    if data.n_sequences > 1:
        of_sequences = range(data.n_sequences) if names is None else names.sequences
        found["sequence"] = [of_sequences[number] for number in sites["sequence"]]
    if names is None or names.sites is None:
        return found.assign(time=sites["time"])
    if indices is None or isinstance(indices[0], pd.RangeIndex):
        return found.assign(site=list(names.sites))
    steps = indices[0].append(list(indices[1:]))
    return found.assign(**{str(steps.name or "time"): steps})


def forecast(
    file: SavedFit,
    steps: Annotated[int, o.option("Forecast", "How many steps ahead", "--steps", min=1)] = 1,
    sequence: Annotated[str | None, o.option("Forecast", "Name or number; default: the last")] = None,
    level: Annotated[float, o.option("Forecast", "Probability of the intervals")] = 0.9,
    paths: Annotated[int, o.option("Forecast", "Number of random paths", min=1)] = 4000,
    covariates: Known = None,
    seed: Seed = 0,
    save: TableOption = None,
    plot: o.PlotOption = None,
    force: o.ForceOption = False,
    json: o.JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Forecast the steps after the data of a saved fit. Means, medians and intervals, of HMMs and
    state-space models."""
    fit = _opened(file, [save], force, json and csv, plot)
    known = _covariates(covariates, fit)
    of = _sequence(fit, sequence)
    found = fit.forecast(steps, sequence=of, n=paths, seed=seed, covariates=known, level=level)
    if covariates is not None and known is not None and known.index.name is None and _dated(fit):
        complain(f"{covariates.name} has no column of dates: its rows are taken for the steps in order")
    if found.last_of and not (json or csv):
        said = f"of {sequence_words(found.sequence)}, the last of {found.last_of:,}"
        print(f"\n{said}; --sequence takes another")
    rows = found.to_dataframe()
    if found.index is not None:
        rows = rows.rename_axis(str(found.index.name or "time")).reset_index()
    picture = None if plot is None else partial(_pictured, found, plot, force)
    _finish(rows, save, force, json, csv, picture, found.about_arcs)


def _sequence(fit: Fit, text: str | None) -> int | None:
    """The number of the sequence that is named on the command line, where numbers are text, too."""
    if text is None:
        return None
    sites = fit.objective.collection
    named = sites.names is not None and text in sites.names.sequences
    number = int(text) if re.fullmatch(r"-?\d{1,9}", text) and not named else text
    return sites.sequence_number(number)


def _pictured(found: Forecast, path: Path, force: bool) -> Path:
    return write_figure(path, found.plot().figure, force=force)


def sample(
    file: SavedFit,
    n: Annotated[int, o.option("Sample", "How many steps", "--n", "-n", min=1)] = 100,
    sequence: Annotated[str | None, o.option("Sample", "The one it begins like; the first")] = None,
    covariates: Known = None,
    seed: Seed = 0,
    save: TableOption = None,
    force: o.ForceOption = False,
    json: o.JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Draw a random sequence from a saved fit. Observations, and hidden states of HMMs."""
    fit = _opened(file, [save], force, json and csv)
    of = _sequence(fit, sequence)
    drawn = fit.sample(n, sequence=of, seed=seed, covariates=_covariates(covariates, fit))
    drawn_values = drawn.values.T  # noqa: PD011 - not of pandas
    values = dict(zip(fit.objective.collection.channel_names, drawn_values, strict=True))
    own = {
        "number" if "step" in values else "step": np.arange(1, n + 1)
    }  # of tracks, a step is a length
    if drawn.states.ndim == 1:  # else they are numbers beside those observed
        own["hidden_state" if "state" in values else "state"] = drawn.states
    rows = pd.DataFrame({**own, **values})
    _finish(rows, save, force, json, csv)


def _dated(fit: Fit) -> bool:
    """Whether steps of the data have dates."""
    indices = indices_of(fit.objective.collection)
    return indices is not None and isinstance(dated(indices[0]), (pd.DatetimeIndex, pd.PeriodIndex))


def _covariates(path: Path | None, fit: Fit) -> pd.DataFrame | None:
    """The columns of a file that hold numbers or are covariates of the fit, labelled by its times."""
    if path is None:
        return None
    data = fit.objective.collection
    indices = indices_of(data)
    steps = None if indices is None else indices[0]
    table = with_dates(with_truths(read_table(path)), steps)
    table.index = dated(table.index)
    known = getattr(data, "covariate_names", ())
    numbers = table.select_dtypes(["number", "bool"]).columns
    return table[[name for name in table.columns if name in numbers or name in known]]


def _finish(
    rows: pd.DataFrame,
    save: Path | None,
    force: bool,
    json: bool,
    csv: bool,
    plot: Callable[[], Path] | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Print the table, its first rows with notes below them, or all of them as JSON or CSV; then write
    it, and what `plot` writes, if asked."""
    dates = rows.select_dtypes(["datetime", "datetimetz"])
    rows = rows.assign(**{str(name): time_names(pd.DatetimeIndex(dates[name])) for name in dates})
    if csv:
        print(outputs.as_csv(rows), end="")
    elif not json:
        show_table(rows.head(_SHOWN).set_index(rows.columns[0]))
        if len(rows) > _SHOWN:
            more = f"{len(rows) - _SHOWN:,} more rows"
            print(f"... and {more}; --save writes all of them, --csv prints them")
        for note in notes:
            print(note)
    files = Files()
    if plot is not None:
        files.add(plot)
    if save is not None:
        files.add(lambda: outputs.write_table(rows, save, force))
    if json:
        document = {"rows": outputs.table_rows(rows.set_index(rows.columns[0]))}
        outputs.print_json({**document, "wrote": files.wrote})
    show_written(files.wrote, json or csv)
    files.finish()
