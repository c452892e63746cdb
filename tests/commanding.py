"""Commands in this process: what they print."""

from __future__ import annotations

from typer.testing import CliRunner

from fitonce.cli.app import app


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def said(*words):
    """What a command prints, which must succeed."""
    done = run(*words)
    assert done.exit_code == 0, done.output
    return done.stdout
