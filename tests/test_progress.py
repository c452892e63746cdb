"""Progress: what is being done is told from the first second on, and only where it is wanted."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest

import fitonce as fo
from fitonce.core import foretelling, progress, progress_lines
from fitonce.crossval.foretold import rows_of


def test_a_stage_that_takes_its_time_is_shown(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0.01)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress.stage("Newton steps", True):
        time.sleep(0.3)
    assert "Newton steps" in capsys.readouterr().err


def test_a_short_stage_is_not(capsys):
    with progress.stage("Newton steps", True):
        pass
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("wanted", [False, None])
def test_nothing_is_shown_unless_wanted_or_on_a_terminal(capsys, monkeypatch, wanted):
    monkeypatch.setattr(progress, "_PATIENCE", 0.01)
    with progress.stage("Newton steps", wanted), progress.bar(3, "folds", wanted) as advance:
        advance(1)
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_a_bar_inside_a_stage_is_no_error(monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0.01)
    with progress.stage("outside", True):
        time.sleep(0.1)
        with progress.bar(2, "inside", True) as advance:
            advance(2)


def test_a_command_whose_output_is_piped_tells_its_progress_in_lines(capsys, monkeypatch):
    monkeypatch.setattr(progress_lines, "EVERY", 0.05)
    with progress_lines.in_lines("working"):
        time.sleep(0.1)
        with progress.stage("Newton steps", None):
            time.sleep(0.1)
            with progress.bar(1200, "folds", None) as advance:
                advance(300)
                time.sleep(0.1)
        with progress.bar(3, "silent", False) as advance:
            advance(1)
            time.sleep(0.1)
    lines = capsys.readouterr().err.splitlines()
    assert any(re.fullmatch(r"fitonce: working: .* so far", line) for line in lines)
    assert any(re.fullmatch(r"fitonce: Newton steps: .* so far", line) for line in lines)
    assert any(re.fullmatch(r"fitonce: folds: 300 of 1,200, .* left", line) for line in lines)
    assert not any("silent" in line for line in lines)
    assert not progress_lines.told_in_lines()


def test_what_does_not_go_on_is_told_ever_more_seldom(capsys, monkeypatch):
    monkeypatch.setattr(progress_lines, "EVERY", 0.01)
    with progress_lines.in_lines("reading"):
        time.sleep(0.6)
    lines = capsys.readouterr().err.splitlines()
    assert 1 <= len(lines) <= 7  # of up to sixty: the first, and then after twice as long each time


def test_what_is_left_is_told_from_when_it_last_went_on():
    """Not from now: a long piece under way would seem to make all others longer."""
    stage = progress_lines._Stage("labels", 100, 50, started=time.perf_counter() - 100)
    stage.advanced = stage.started + 10
    assert stage.line().endswith("about 10 s left")


def test_lines_end_with_the_command_that_fails(capsys, monkeypatch):
    monkeypatch.setattr(progress_lines, "EVERY", 0.01)
    with pytest.raises(ValueError, match="wrong"), progress_lines.in_lines("working"):
        raise ValueError("wrong")
    told = capsys.readouterr().err
    time.sleep(0.05)
    assert capsys.readouterr().err == ""
    assert re.fullmatch(r"(fitonce: working: .* so far\n)*", told)  # how often is the machine's to say


@pytest.mark.parametrize(
    ("least", "most", "said"),
    [
        (1.0, 19.0, ""),
        (4.0, 50.0, "folds will take 4 s to 50 s\n"),
        (200.0, 205.0, "about 3 min\n"),
        (6.0, 360.0, "folds will take from 6 s, at most 6 min\n"),
    ],
)
def test_what_takes_long_says_how_long_before_it_starts(capsys, least, most, said):
    foretelling.foretell("folds", least, most)
    assert capsys.readouterr().err.endswith(said)
    assert bool(said) == (least * most >= foretelling.LONG**2)


def test_fits_and_folds_say_how_long_they_take_where_progress_is_shown(capsys, monkeypatch):
    data = np.random.default_rng(0).poisson(4.0, 60)
    monkeypatch.setattr(foretelling, "LONG", 0.0)
    fit = fo.fit(fo.models.PoissonHMM(2), data, restarts=1, optima=0, progress=False)
    fo.cross_validate(fit, fo.folds.kfold(data, 3), method="onestep", progress=False)
    assert "will take" not in capsys.readouterr().err
    fo.fit(fo.models.PoissonHMM(2), data, restarts=1, optima=0, progress=True)
    assert "1 start of the fit, and more where they end apart, will take" in capsys.readouterr().err
    fo.cross_validate(fit, fo.folds.kfold(data, 3), method="onestep", progress=True)
    assert "fitonce: 3 folds by 'onestep' will take" in capsys.readouterr().err


def test_harder_methods_are_foretold_to_take_longer():
    fit = fo.fit(fo.models.PoissonHMM(2), np.arange(60) % 7, restarts=1, optima=0)
    ends = {name: rows_of(fit.objective, name, 5, 10) for name in ("none", "onestep", "auto", "exact")}
    assert all(0 < least < most for least, most in ends.values())
    assert ends["none"][1] < ends["onestep"][1] < ends["auto"][1] < ends["exact"][1]
    assert rows_of(fit.objective, "auto", 5, 0)[1] == ends["auto"][1] - 100


def test_verbs_are_stages_and_the_beginning_is_told_only_while_it_lasts(capsys, monkeypatch):
    monkeypatch.setattr(progress_lines, "EVERY", 0.05)
    monkeypatch.setattr(progress_lines, "_WHILE", 0.02)

    @progress_lines.told_as("the verb")
    def verb(progress=None):
        time.sleep(0.12)

    with progress_lines.in_lines("reading"):
        time.sleep(0.08)
        verb()
        verb(progress=False)
    lines = [line.split(":")[1].strip() for line in capsys.readouterr().err.splitlines()]
    assert lines[0] == "reading"
    assert "the verb" in lines
    assert lines[-1] == "the whole command"
    assert "reading" not in lines[lines.index("the verb") :]
