"""Angles: quantiles, arcs and forecasts of directions, against brute force and SciPy."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from typer.testing import CliRunner

import fitonce as fo
from fitonce.cli.app import app
from fitonce.core import angles
from fitonce.results.forecast import Forecast

TURN = 2 * np.pi
# Two states of turning animals: ahead and around; both may be entered from both.
CHAIN = {"initial": np.array([0.5, 0.5]), "transition": np.array([[0.6, 0.4], [0.6, 0.4]])}


def apart(a, b):
    return np.angle(np.exp(1j * (np.asarray(a) - np.asarray(b))))


def at(mean, concentration, **more):
    params = {"mean": np.atleast_2d(mean).T, "concentration": np.atleast_2d(concentration).T, **more}
    if "initial" not in more:
        params |= {"initial": np.ones(1), "transition": np.ones((1, 1))}
    model = fo.models.HMM(len(params["mean"]), "von-mises")
    return fo.fit_at(model, np.array([0.1, 3.0, -3.0, 1.0]), params)


def share_within(lower, upper, means, concentrations, weights):
    """The probability of the arc from lower anticlockwise to upper under a mixture."""
    width = np.mod(upper - lower, TURN)
    ends = [lower, lower + width]
    return sum(
        w * np.diff(stats.vonmises.cdf(ends, k, loc=m)).item()
        for m, k, w in zip(means, concentrations, weights, strict=True)
    )


def test_angles_are_within_half_a_turn():
    given = np.array([np.pi, -np.pi, 3 * np.pi, np.nextafter(np.pi, 4.0), 4.0, -7.0, 0.3])
    found = angles.wrapped(given)
    assert ((found > -np.pi) & (found <= np.pi)).all()
    np.testing.assert_allclose(apart(found, given), 0.0, atol=1e-14)


@pytest.mark.parametrize("n", [1, 2, 7, 40])
@pytest.mark.parametrize("concentration", [0.01, 1.0, 30.0])
def test_the_median_has_the_least_mean_distance(n, concentration):
    x = np.random.default_rng(n).vonmises(3.0, concentration, (n, 2, 1))
    found = angles.quantiles_of_angles(x, 0.5)
    fine = np.linspace(-np.pi, np.pi, 40_001)
    for column in range(2):
        distance = lambda a, v=x[:, column, 0]: np.abs(apart(v, a)).mean()  # noqa: E731
        assert distance(found[column, 0]) <= min(map(distance, fine)) + 1e-12


@pytest.mark.parametrize("level", [0.05, 0.5, 0.9, 0.999])
def test_the_shortest_arc_is_that_of_all_arcs_between_two_angles(level):
    x = np.random.default_rng(5).vonmises(3.0, 0.7, (60, 1))
    best = TURN
    for begin in x[:, 0]:
        ahead = np.sort(np.mod(x[:, 0] - begin, TURN))
        best = min(best, ahead[int(np.ceil(level * 60)) - 1])
    lower, upper = angles.shortest_arcs(x, level)
    assert np.mod(upper - lower, TURN).item() == pytest.approx(best, abs=1e-12)
    assert np.mean(np.mod(x[:, 0] - lower + 1e-12, TURN) <= best + 2e-12) >= level


@pytest.mark.parametrize("mean", [0.0, 3.0, np.pi, -2.5])
@pytest.mark.parametrize("concentration", [0.8, 5.0, 100.0])
def test_forecasts_of_one_direction_have_the_quantiles_of_its_distribution(mean, concentration):
    n = 100_000
    ahead = at([mean], [concentration]).forecast(2, n=n)
    known = stats.vonmises(concentration)
    sd = np.sqrt(known.expect(lambda a: a**2, lb=-np.pi, ub=np.pi))
    np.testing.assert_allclose(apart(ahead.mean, mean), 0.0, atol=5 * sd / np.sqrt(n))
    np.testing.assert_allclose(ahead.sd, sd, rtol=0.02)
    for p in (0.05, 0.5, 0.9):
        noise = np.sqrt(p * (1 - p) / n) / known.pdf(known.ppf(p))
        middle = np.sqrt(0.25 / n) / known.pdf(0.0)  # opposite of which counting begins
        found = apart(ahead.quantile(p), mean)
        np.testing.assert_allclose(found, known.ppf(p), atol=5 * (noise + middle))
    lower, upper = ahead.interval(0.9)
    width, exact = np.mod(upper - lower, TURN), 2 * known.ppf(0.95)
    np.testing.assert_allclose(width, exact, rtol=0.03)
    assert ((lower > upper) == (np.abs(mean) + known.ppf(0.95) > np.pi)).all()
    for low, high in zip(lower.ravel(), upper.ravel(), strict=True):
        share = share_within(low, high, [mean], [concentration], [1.0])
        assert share == pytest.approx(0.9, abs=0.005)


def test_the_arc_of_two_directions_leaves_out_the_least_probable():
    """Ahead and around: what is left out lies between the two, not within one of them."""
    means, spread, weights = [0.0, np.pi], [8.0, 4.0], [0.6, 0.4]
    ahead = at(means, spread, **CHAIN).forecast(3, n=100_000)
    lower, upper = ahead.interval(0.9)

    def width(begin):  # of the arc from there that holds 0.9
        short = lambda w: share_within(begin, begin + w, means, spread, weights) - 0.9  # noqa: E731
        return optimize.brentq(short, 1e-6, TURN - 1e-6)

    best = min(width(begin) for begin in np.linspace(-np.pi, np.pi, 721))
    for low, high in zip(lower.ravel(), upper.ravel(), strict=True):
        assert share_within(low, high, means, spread, weights) == pytest.approx(0.9, abs=0.005)
        assert np.mod(high - low, TURN) == pytest.approx(best, rel=0.02)


def test_intervals_of_forecasts_cover_draws_of_the_mixture():
    means, spread = [2.8, -1.0], [6.0, 2.0]
    fit = at(means, spread, **CHAIN)
    lower, upper = (end[0, 0] for end in fit.forecast(1, seed=1).interval(0.8))
    rng, z = np.random.default_rng(2), np.random.default_rng(3).random(100_000) < 0.4
    drawn = rng.vonmises(np.take(means, z.astype(int)), np.take(spread, z.astype(int)))
    covered = np.mod(drawn - lower, TURN) <= np.mod(upper - lower, TURN)
    assert covered.mean() == pytest.approx(0.8, abs=0.02)  # of 4,000 paths


@pytest.fixture(scope="module")
def mixed():
    """A step that is gamma, and a turn around pi, of fits at known parameters."""
    rng = np.random.default_rng(0)
    turns = rng.vonmises(np.pi, 8.0, 80)
    table = pd.DataFrame({"step": rng.gamma(4.0, size=80), "turn": turns})
    model = fo.models.HMM(1, fo.models.Product({"step": "gamma", "turn": "von-mises"}))
    return fo.fit(model, table)


def test_tables_and_prints_say_which_intervals_are_arcs(mixed):
    ahead = mixed.forecast(3)
    rows = ahead.to_dataframe()
    assert rows["arc"].tolist() == [False, True] * 3
    turns, steps = rows[rows["arc"]], rows[~rows["arc"]]
    assert (turns["lower"] > turns["upper"]).all()
    assert (steps["lower"] < steps["upper"]).all()
    assert turns[["mean", "median", "lower", "upper"]].abs().to_numpy().max() <= np.pi
    said = (
        "intervals of turn are the shortest arcs, anticlockwise from lower to upper, through pi where "
        "lower > upper"
    )
    assert said in repr(ahead)
    assert said in ahead._repr_html_().replace("&gt;", ">")
    plain = fo.fit(fo.models.HMM(1, "gamma"), np.arange(1.0, 20)).forecast(2)
    assert "arc" not in repr(plain)
    assert "arc" not in plain.to_dataframe()


def test_the_command_says_so_too(mixed, tmp_path):
    mixed.save(tmp_path / "fit.json")
    run = lambda *words: CliRunner().invoke(app, ["forecast", str(tmp_path / "fit.json"), *words]).output  # noqa: E731
    assert "intervals of turn are the shortest arcs" in run("--steps", "2")
    header, *_ = run("--csv").splitlines()
    assert header == "time,step,channel,mean,median,lower,upper,arc"


def test_pictures_of_arcs_are_cut_at_pi(mixed):
    ahead = mixed.forecast(3)
    lower, upper = ahead.interval()
    ax = ahead.plot(channel=1)
    assert ax.get_ylim() == (-np.pi, np.pi)
    drawn = [band.get_paths()[0].vertices[:, 1] for band in ax.collections]
    assert len(drawn) == 2  # one a turn below the other
    bands = sorted((v.min(), v.max()) for v in drawn)
    np.testing.assert_allclose(bands[1][0] - bands[0][0], TURN)
    assert bands[0][0] < -np.pi < bands[0][1] < 0 < bands[1][0] < np.pi < bands[1][1]
    # At every step what is coloured is the arc, in the picture and in that of the card.
    for begin, end in zip(lower[:, 1], upper[:, 1], strict=True):
        pairs = angles.turns_of(np.array([begin]), np.array([end]))
        seen = np.linspace(-np.pi, np.pi, 999)[1:]
        shown = np.any([(low <= seen) & (seen <= high) for low, high in pairs], axis=0)
        np.testing.assert_array_equal(shown, np.mod(seen - begin, TURN) <= np.mod(end - begin, TURN))
    plt.close("all")
    alone = Forecast(
        ahead.samples[:, :, 1:], None, None, ("turn",), ahead.observed[:, 1:], (True,)
    )._repr_html_()
    assert alone.count("<svg") == 2
    assert "π" in alone
