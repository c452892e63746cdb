"""Chains of hidden states: layout, compiled programs, objective."""
