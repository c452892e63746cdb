"""The command-line interface."""

from fitonce.cli.app import app

__all__ = ["app"]
