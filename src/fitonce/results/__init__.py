"""Results, whatever made them: verdicts, one shape of result, files, comparisons, plots, reports."""
