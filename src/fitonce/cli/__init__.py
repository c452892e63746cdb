"""The command line."""

from fitonce.cli.app import app

__all__ = ["app"]
