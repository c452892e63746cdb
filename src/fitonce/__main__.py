"""`python -m fitonce` is `fitonce`."""

from fitonce.cli import app

app(prog_name="fitonce")
