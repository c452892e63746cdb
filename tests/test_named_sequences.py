"""What concerns one of several sequences takes it by name, and says which one it is of."""

from __future__ import annotations

import io

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fitonce as fo
from fitonce.cli import app

NAMES = ("whale 1", "whale 2", "seal")
TRANSITION = np.array([[0.9, 0.1], [0.2, 0.8]])
RATE = np.array([2.0, 9.0])
PARAMS = {"initial": np.array([0.5, 0.5]), "transition": TRANSITION, "rate": RATE[:, None]}


def _counts(seed, steps):
    return np.random.default_rng(seed).poisson(np.resize(np.repeat(RATE, 5), steps)).astype(float)


def _tables(series):
    return {name: pd.DataFrame({"count": x}) for name, x in series.items()}


SERIES = {name: _counts(number, 20 + 7 * number) for number, name in enumerate(NAMES)}


@pytest.fixture(scope="module")
def fit():
    return fo.fit_at(fo.models.PoissonHMM(2), _tables(SERIES), PARAMS)


@pytest.fixture(scope="module")
def parts():
    walks = {name: np.cumsum(_counts(number, 30) - 5.0) for number, name in enumerate(NAMES)}
    return fo.fit_at(fo.models.Structural(), _tables(walks), {"level": 4.0, "noise": 2.0})


def _filtered(x):
    """p(last state | x) of a two-state chain, by hand."""
    now = PARAMS["initial"]
    for step, value in enumerate(x):
        now = now if step == 0 else now @ TRANSITION
        now = now * np.exp(value * np.log(RATE) - RATE)
        now = now / now.sum()
    return now


@pytest.mark.parametrize(("sequence", "name"), [("whale 1", "whale 1"), (1, "whale 2"), (-1, "seal")])
def test_a_forecast_of_a_sequence_by_name_or_number(fit, sequence, name):
    ahead = fit.forecast(3, sequence=sequence, n=20)
    for step in range(3):
        shares = _filtered(SERIES[name]) @ np.linalg.matrix_power(TRANSITION, step + 1)
        assert ahead.mean[step, 0] == pytest.approx(shares @ RATE, rel=1e-10)
    assert ahead.to_dataframe()["sequence"].tolist() == [name] * 3
    assert repr(ahead).startswith(f"Forecast of 3 steps after sequence {name}, means exact")
    assert f"3 steps after sequence {name}, means" in ahead._repr_html_()
    ax = ahead.plot()
    assert ax.get_title() == f"sequence {name}"
    plt.close(ax.figure)


def test_a_forecast_of_none_that_was_named_says_that_it_is_of_the_last(fit):
    ahead = fit.forecast(2, n=20)
    np.testing.assert_array_equal(ahead.mean, fit.forecast(2, n=20, sequence="seal").mean)
    said = "Forecast of 2 steps after sequence seal, the last of 3 (sequence= takes another), means"
    assert repr(ahead).startswith(said)
    assert ahead.to_dataframe()["sequence"].tolist() == ["seal", "seal"]


def test_sequences_without_names_have_numbers():
    fit = fo.fit_at(fo.models.PoissonHMM(2), list(SERIES.values()), PARAMS)
    ahead = fit.forecast(1, n=5)
    assert ahead.to_dataframe()["sequence"].tolist() == [2]
    assert "after sequence 2, the last of 3" in repr(ahead)
    expected = r"sequence must be a number from 0 to 2 \(-1: the last\), got 'seal'"
    with pytest.raises(ValueError, match=expected):
        fit.forecast(1, sequence="seal")


def test_one_sequence_is_not_named():
    fit = fo.fit_at(fo.models.PoissonHMM(2), _tables({"seal": SERIES["seal"]}), PARAMS)
    ahead = fit.forecast(1, n=5, sequence="seal")
    assert repr(ahead).startswith("Forecast of 1 step, means exact")
    assert "sequence" not in ahead.to_dataframe()
    with pytest.raises(ValueError, match="sequence must be the name of one of 1, such as 'seal', or 0,"):
        fit.forecast(1, sequence="whale")


def test_numbers_that_are_names_are_names():
    table = pd.DataFrame({"animal": np.repeat([1, 2, 3], 10), "count": np.arange(30.0) % 7})
    data = fo.sequences(table, group="animal")
    fit = fo.fit_at(fo.models.PoissonHMM(2), data, PARAMS)
    for animal in (1, np.int64(2), 3):
        assert fit.forecast(1, n=5, sequence=animal).sequence == str(animal)
    assert fit.forecast(1, n=5, sequence=-1).sequence == "3"
    assert len(fit.sample(4).states) == 4
    with pytest.raises(ValueError, match=r"sequence must be the name of one of 3, such as '1' .*got 0"):
        fit.forecast(1, sequence=0)


@pytest.mark.parametrize("name", ["Whale2", "whale  2"])
def test_a_name_that_is_not_there_is_answered_with_the_nearest(fit, name):
    expected = r"sequence must be the name of one of 3, such as 'whale 2' or 'whale 1', or a number from"
    for verb in (
        fit.decode,
        fit.posterior,
        fit.states,
        lambda sequence: fit.forecast(1, sequence=sequence),
    ):
        with pytest.raises(ValueError, match=expected):
            verb(sequence=name)
    with pytest.raises(ValueError, match=expected):
        fit.sample(1, sequence=name)


@pytest.mark.parametrize("sequence", [3, -4, 1.0, True])
def test_other_numbers_are_refused(fit, sequence):
    with pytest.raises(ValueError, match="or a number from 0 to 2"):
        fit.forecast(1, sequence=sequence)


def test_states_and_their_shares_of_one_sequence(fit):
    np.testing.assert_array_equal(fit.decode(sequence="whale 2"), fit.decode()[1])
    np.testing.assert_array_equal(fit.posterior(sequence="whale 2"), fit.posterior()[20:47])
    alone = fo.fit_at(fit.model, SERIES["whale 2"], PARAMS)
    np.testing.assert_allclose(fit.posterior(sequence=1), alone.posterior(), atol=1e-12)
    shares = fit.states(sequence="whale 2")["share"]
    np.testing.assert_allclose(shares, alone.states()["share"], atol=1e-12)
    assert not np.allclose(shares, fit.states()["share"])


def test_tables_of_one_sequence_keep_its_index():
    days = pd.date_range("2024-01-01", periods=20, freq="D", name="day")
    tables = {name: pd.DataFrame({"count": SERIES["seal"][:20]}, index=days) for name in ("a", "b")}
    fit = fo.fit_at(fo.models.PoissonHMM(2), tables, PARAMS)
    pd.testing.assert_index_equal(fit.posterior(sequence="b").index, days)
    pd.testing.assert_index_equal(fit.decode(sequence="b").index, days)
    assert fit.posterior().index.names == ["sequence", "day"]


def test_parts_and_forecasts_of_one_series(parts):
    walk = np.cumsum(_counts(1, 30) - 5.0)
    alone = fo.fit_at(parts.model, walk, parts.params)
    for found, expected in (
        (parts.components(sequence="whale 2"), alone.components()),
        (parts.smoothed(sequence="whale 2"), alone.smoothed()),
        (parts.components().of_sequence("whale 2"), alone.components()),
    ):
        np.testing.assert_allclose(found.mean, expected.mean, atol=1e-9)
        np.testing.assert_allclose(found.sd, expected.sd, atol=1e-9)
        assert "at 30 steps of sequence whale 2 given all data" in repr(found)
    np.testing.assert_allclose(parts.forecast(2, sequence="whale 2").mean, alone.forecast(2).mean)
    rows = parts.components().to_dataframe()
    assert rows.index.get_level_values("sequence").unique().tolist() == list(NAMES)
    figure = parts.components().plot(sequence="whale 2")
    assert figure.axes[0].get_title() == "sequence whale 2"
    plt.close(figure)
    with pytest.raises(ValueError, match="'whale 2' or 'whale 1', or a number from 0 to 2"):
        parts.components(sequence="whale2")


def test_samples_begin_like_the_sequence_that_is_named(parts):
    first = parts.smoothed(sequence="seal").mean[0]
    np.testing.assert_allclose(parts.sample(3, sequence="seal").states[0], first)
    np.testing.assert_array_equal(parts.sample(3).states, parts.sample(3, sequence=0).states)


def test_the_level_of_a_forecast_is_that_of_its_intervals(fit):
    ahead, usual = fit.forecast(2, n=500, level=0.5), fit.forecast(2, n=500)
    for found, expected in zip(ahead.interval(), usual.interval(0.5), strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(usual.interval()[0], usual.quantile(0.05))
    np.testing.assert_array_equal(ahead.to_dataframe()["lower"], ahead.quantile(0.25).ravel())
    assert "50 % interval" in repr(ahead)
    assert "their 50 % interval" in ahead._repr_html_()
    ax = ahead.plot()
    assert "50 % interval" in [text.get_text() for text in ax.get_legend().texts]
    plt.close(ax.figure)
    with pytest.raises(ValueError, match=r"level must be a probability .*\(0.9, not 90\), got 90"):
        fit.forecast(2, level=90)


def _run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_command_takes_and_prints_names(fit, tmp_path):
    saved = fit.save(tmp_path / "fit.json")
    words = ["forecast", saved, "--steps", 2, "--paths", 20]
    rows = pd.read_csv(io.StringIO(_run(*words, "--sequence", "whale 2", "--csv").stdout))
    assert rows["sequence"].tolist() == ["whale 2", "whale 2"]
    expected = fit.forecast(2, sequence="whale 2", n=20)
    np.testing.assert_allclose(rows["mean"], expected.mean[:, 0])
    assert (
        _run(*words, "--sequence", "-2", "--csv").stdout
        == _run(*words, "--sequence", "1", "--csv").stdout
    )
    assert "of sequence seal, the last of 3; --sequence takes another" in _run(*words).stdout
    refused = _run(*words, "--sequence", "whale2")
    assert refused.exit_code != 0
    assert "such as 'whale 2' or 'whale 1'" in refused.output
    drawn = _run("sample", saved, "--n", 3, "--sequence", "seal", "--csv").stdout
    assert len(drawn.splitlines()) == 4
