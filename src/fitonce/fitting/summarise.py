"""The summary of a fit, which is what results show and save."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fitonce.results.summary import FitSummary

if TYPE_CHECKING:
    from fitonce.fitting.fit import Fit

_MOST_PARAMETERS = 2000  # with more, standard errors take too long: each is a solve with H


def summary_of(fit: Fit) -> FitSummary:
    """The parts of a fit that are shown and saved."""
    objective, sites = fit.objective, fit.objective.collection
    if len(fit.theta) <= _MOST_PARAMETERS:
        table = fit.to_dataframe()[["name", "value", "se"]]
    else:
        values = objective.space.named_values(fit.theta[None])[0]
        table = pd.DataFrame({"name": fit.names, "value": values, "se": np.nan})
    return FitSummary(
        model=str(fit.model),
        data=str(fit.data) if sites is fit.data else type(fit.data).__name__,
        status=fit.status,
        parameters=table,
        log_likelihood=fit.log_likelihood,
        lengths=np.asarray(sites.lengths),
        values=sites.shown_values,
        channels=sites.channel_names,
        edges=objective.edges,
        seconds=fit.seconds,
        places=sites.names,
    )
