"""Data of one's own models: labels lay tables and series beside each other, dates are in order, and what
cannot be read is refused in a sentence."""

from __future__ import annotations

import re

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import fitonce as fo
from fitonce.data.own import are_times, read_own

N = 40
NAMES = [f"area {number}" for number in range(N)]


def line(params, data, weights):
    residual = data["y"] - params["a"] - params["b"] * data["x"]
    return jnp.sum(weights * (-0.5 * residual**2))


INIT = {"a": 0.0, "b": 0.0}
MODEL = fo.models.Custom(line, INIT)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    x = rng.normal(size=N)
    return pd.DataFrame({"x": x, "y": 1 + 2 * x + 0.1 * rng.normal(size=N)}, index=NAMES)


def slope(data):
    return float(fo.fit(MODEL, data).params["b"])


def test_series_are_laid_beside_each_other_by_their_labels(table):
    right = slope(dict(table))
    order = np.random.default_rng(0).permutation(N)
    assert right == pytest.approx(np.polyfit(table["x"], table["y"], 1)[0], rel=1e-9)
    assert slope({"x": table["x"].iloc[order], "y": table["y"]}) == pytest.approx(right, rel=1e-9)
    assert slope({"x": table["x"], "y": table["y"].iloc[order]}) == pytest.approx(right, rel=1e-12)
    rows = table.reset_index(
        drop=True
    )  # numbers of rows are labels too, where they are in another order
    assert slope({"x": rows["x"].iloc[order], "y": rows["y"]}) == pytest.approx(right, rel=1e-9)
    assert slope({"x": rows["x"], "y": rows["y"].iloc[order]}) == pytest.approx(right, rel=1e-12)
    assert slope({"x": table["x"].to_numpy(), "y": table["y"]}) == pytest.approx(right, rel=1e-12)
    shuffled = {"x": table["x"].iloc[order], "y": table["y"]}
    same = {"x": table["x"].iloc[order], "y": table["y"].iloc[order]}
    folds = fo.folds.points(N)
    losses = [fo.cross_validate(fo.fit(MODEL, one), folds).estimate for one in (shuffled, same)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)


def test_tables_of_distances_are_put_in_order_on_both_sides(table):
    size = np.arange(N, dtype=float)
    apart = pd.DataFrame(np.subtract.outer(size, 3 * size), NAMES, NAMES)
    order = np.random.default_rng(1).permutation(N)
    found, labels = read_own({"x": table["x"], "z": apart.iloc[order, order[::-1]]})
    np.testing.assert_array_equal(found["z"], apart.to_numpy())
    assert list(labels) == NAMES
    areas = pd.Series([1.0, 2.0, 3.0], ["north", "south", "west"])  # of another thing
    np.testing.assert_array_equal(read_own({"x": table["x"], "z": areas})[0]["z"], [1, 2, 3])


def test_other_labels_are_refused(table):
    other = table["y"].set_axis([f"place {number}" for number in range(N)])
    wanted = "data['y'] must have rows for all of data['x'] (area 0"
    with pytest.raises(ValueError, match=f"^{re.escape(wanted)}"):
        fo.fit(MODEL, {"x": table["x"], "y": other})
    twice = table["y"].set_axis(["area 0", *NAMES[:-1]])
    with pytest.raises(ValueError, match=r"'?area 0'? occurs twice in data\['y'\]"):
        fo.fit(MODEL, {"x": table["x"], "y": twice})


DAYS = pd.date_range("2024-01-01", periods=N)


@pytest.mark.parametrize(
    ("dates", "message"),
    [
        (DAYS[np.arange(N) // 2], "but 2024-01-01 occurs twice. For several"),
        (DAYS[::-1], "must increase .*, but 2024-02-09 is followed by 2024-02-08"),
        (DAYS[:-1].append(pd.DatetimeIndex([pd.NaT])), f"every row, got an empty cell in row {N - 1}"),
        (DAYS[::-1].strftime("%Y-%m-%d"), "must increase .*, but '?2024-02-09'? is followed"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("whole", [True, False])
def test_dates_follow_the_rule_of_all_tables(table, dates, message, whole):
    dated = table.set_axis(dates)
    model = fo.models.Custom(lambda p, d, w: line(p, {"x": d[:, 0], "y": d[:, 1]}, w), INIT)
    with pytest.raises(ValueError, match=f"^dates of data.*{message}"):
        fo.fit(model if whole else MODEL, dated if whole else dict(dated))


def test_dates_of_series_in_a_dict_say_that_points_are_along_time(table):
    folds = fo.folds.points(N)
    told = fo.models.Custom(line, INIT, along_time=True)
    wanted = fo.cross_validate(fo.fit(told, dict(table)), folds).se
    for days in (DAYS, DAYS.to_period("D"), DAYS.strftime("%Y-%m-%d")):
        fit = fo.fit(MODEL, dict(table.set_axis(days)))
        assert fo.cross_validate(fit, folds).se == pytest.approx(wanted, rel=1e-12)
        assert are_times(table.set_axis(days).index)
    assert not are_times(table.index)
    assert not are_times(None)


def test_what_cannot_be_read_is_refused_in_a_sentence(table):
    with pytest.raises(
        ValueError, match=r"^log_density and heldout get a table as one array, .*dict\(table\)"
    ):
        fo.fit(MODEL, table)
    assert slope(dict(table)) == pytest.approx(2.0, abs=0.1)  # as is advised
    message = r"^log_density must be a function of params, data and weights, got one of \(params, data\)"
    with pytest.raises(ValueError, match=message):
        fo.models.Custom(lambda params, data: 0.0, INIT)
    with pytest.raises(
        ValueError, match=r"^heldout must be a function of params, data and weights, got one"
    ):
        fo.models.Custom(line, INIT, heldout=lambda params: 0.0)
    with pytest.raises(ValueError, match=r"^log_prior must be a function of params, got one of"):
        fo.models.Custom(line, INIT, lambda params, data: 0.0)
    assert fo.models.Custom(lambda *given: line(*given), INIT).log_density
    named = table.assign(name=NAMES)
    with pytest.raises(
        ValueError, match=r"^data must hold numbers alone, got 'area 0' in column 'name'"
    ):
        fo.fit(MODEL, named)
    with pytest.raises(ValueError, match=r"^data\['name'\] must hold numbers, got 'area 0'"):
        fo.fit(MODEL, dict(named))
    own = ValueError  # of the density itself: as it is

    def broken(params, data, weights):
        raise own("mine")

    with pytest.raises(ValueError, match=r"^mine"):
        fo.fit(fo.models.Custom(broken, INIT), table)


def test_loo_and_influence_say_what_leaves_out_points_of_an_own_model(table):
    fit = fo.fit(MODEL, dict(table))
    for call in (fo.loo, fo.influence):
        with pytest.raises(
            ValueError, match=rf"does not have; .*fo.cross_validate\(fit, fo.folds.points\({N}\)\)"
        ):
            call(fit)
    assert fo.cross_validate(fit, fo.folds.points(N)).n_failed == 0  # as is advised


def test_loo_takes_clusters():
    x = np.random.default_rng(4).poisson(3.0, 60).astype(float)
    fit = fo.fit(fo.models.PoissonHMM(1), x)
    labels = np.arange(60) // 10
    found = fo.loo(fit, clusters=labels)
    other = fo.cross_validate(fit, fo.folds.points(x), clusters=labels)
    assert (found.units, found.dof) == ("clusters", pytest.approx(5))
    assert found.se == pytest.approx(other.se, rel=1e-3)
    assert fo.loo(fit).units != "clusters"
    with pytest.raises(ValueError, match="clusters must have one label for each"):
        fo.loo(fit, clusters=labels[1:])
