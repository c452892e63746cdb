"""Progress: what is being done is told from the first second on, and only where it is wanted."""

from __future__ import annotations

import re
import time

import pytest

from fitonce.core import progress, progress_lines


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


def test_lines_end_with_the_command_that_fails(capsys, monkeypatch):
    monkeypatch.setattr(progress_lines, "EVERY", 0.01)
    with pytest.raises(ValueError, match="wrong"), progress_lines.in_lines("working"):
        raise ValueError("wrong")
    told = capsys.readouterr().err
    time.sleep(0.05)
    assert capsys.readouterr().err == ""
    assert told in ("", "fitonce: working: 0.01 s so far\n")
