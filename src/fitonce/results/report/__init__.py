"""A result as one self-contained HTML file: no network, no server, no other files."""

from fitonce.results.report.comparison import comparison_report
from fitonce.results.report.page import html_report

__all__ = ["comparison_report", "html_report"]
