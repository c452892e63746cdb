"""Sudden infant deaths in North Carolina, 1974-78: from two CSV files to a cross-validated map.

    python examples/sids2.py [FOLDER]

FOLDER holds `sids2.csv` (counties: births, deaths) and `sids2_queen_edges.csv` (pairs of neighbours);
without it the folder named by FITONCE_DATA is searched.

Counties differ in births by a factor of a hundred, so deaths are modelled out of births: a binomial
emission with exposure. Which counties share a rate is hidden; neighbours tend to. How many rates are
there, and how strongly do neighbours agree? Leave-one-out says what the data can tell.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import fitonce as fo

OUT = Path("out")


def read(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The two files, wherever below the folder they are."""
    places = [folder, folder / "sids2"]
    for place in places:
        if (place / "sids2.csv").is_file():
            return pd.read_csv(place / "sids2.csv"), pd.read_csv(place / "sids2_queen_edges.csv")
    sys.exit(f"expected sids2.csv in {folder}; give the folder that holds it")


def model(edges: pd.DataFrame, births: pd.Series, classes: int, beta: float) -> fo.models.PottsMixture:
    graph = fo.graph(edges, n_sites=len(births))
    return fo.models.PottsMixture(
        graph, n_classes=classes, emission="binomial", beta=beta, exposure=births
    )


def main(folder: Path) -> None:
    counties, edges = read(folder)
    deaths, births = counties["SID74"], counties["BIR74"]
    print(f"{len(counties)} counties, {len(edges)} pairs of neighbours, {int(deaths.sum())} deaths\n")

    # 1. One model per number of classes and coupling, each cross-validated from its one fit.
    results = {}
    for classes in (1, 2, 3):
        for beta in (0.0, 0.5, 1.0) if classes > 1 else (0.0,):
            fit = fo.fit(model(edges, births, classes, beta), deaths, restarts=10)  # several optima
            results[classes, beta] = fo.loo(fit)
    print("leave-one-county-out loss (lower is better)")
    for (classes, beta), cv in results.items():
        print(
            f"  {classes} classes, beta {beta:3.1f}: {cv.estimate:.3f} +- {cv.se:.3f}   control "
            f"{cv.control:.3f}   {cv.fit.status.outcome.value}"
        )

    # 2. The best of them, looked at: rates per 1,000 births, and how far to trust each fold.
    best = min(results, key=lambda key: results[key].estimate)
    cv, fit = results[best], results[best].fit
    print(f"\nbest: {best[0]} classes, beta {best[1]:g}")
    print(fit.to_dataframe()[["name", "value", "se"]].to_string(index=False))
    print(f"\n{cv}")
    moved = fo.influence(fit).top(3).assign(county=lambda t: counties["NAME"].to_numpy()[t["site"]])
    print("\ncounties that move the fit most")
    print(moved[["county", "value", "loss", "displacement"]].to_string(index=False))

    # 3. A harder question: whole neighbourhoods left out, the model trained without them.
    regions = fo.folds.regions(fit.model, percent=10, n=30, seed=0)
    print(f"\n{fo.cross_validate(fit, regions, scheme='B')}")

    # 4. The map. The files have no coordinates, so this is a drawing of who touches whom.
    figure, axes = plt.subplots(1, 3, figsize=(16, 5.4), layout="constrained")
    rate = (1000 * deaths / births).rename("deaths per 1,000 births")
    fo.plot_map(rate, fit.model, ax=axes[0])
    fo.plot_map(fit, fit.model, show="class", ax=axes[1])
    fo.plot_map(cv, fit.model, label="held-out loss", ax=axes[2])
    for ax, title in zip(axes, ("data", "most probable class", "leave-one-out"), strict=True):
        ax.set_title(title)
    OUT.mkdir(exist_ok=True)
    figure.savefig(OUT / "sids2.png", dpi=120)
    print(f"\nmap: {OUT / 'sids2.png'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("FITONCE_DATA", "data")))
