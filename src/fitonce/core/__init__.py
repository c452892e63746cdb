"""What everything stands on: numbers, parameters, outcomes, progress, where work runs. No models."""
