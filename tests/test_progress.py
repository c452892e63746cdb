"""Progress: what is being done is told from the first second on, and only where it is wanted."""

from __future__ import annotations

import time

import pytest

from fitonce.core import progress


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
