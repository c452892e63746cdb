"""A result as one self-contained HTML file: no network, no server, no other files."""

from fitonce.results.report.page import html_report

__all__ = ["html_report"]
