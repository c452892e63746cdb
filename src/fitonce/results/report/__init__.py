"""A result as one HTML file that needs nothing else: no network, no server, no other file."""

from fitonce.results.report.page import html_report

__all__ = ["html_report"]
