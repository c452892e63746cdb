"""Cross-validation results: verdicts, the result class, files, comparisons, plots, reports."""
