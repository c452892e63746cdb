"""The command line: words to calls."""

from fitonce.cli.app import app

__all__ = ["app"]
